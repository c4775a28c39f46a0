import { driverName } from '../../api/names.ts';
import { InvalidInput } from '../../base/errors.ts';
import { unboundReason } from '../../explain/claim.ts';
import { because, type Explanation, explanation, type Finding, listed } from '../../explain/explanation.ts';
import { type Claim, Known, type Objects } from '../../explain/known.ts';
import { nodeObstacles } from '../../explain/node-obstacles.ts';
import { wouldBypass } from '../../explain/on-node.ts';
import { schedulingReason } from '../../explain/scheduling.ts';
import { classProblem, editing } from '../../explain/storage-class.ts';
import {
  claimNamesOf,
  csiDrivers,
  csiNodes,
  csiStorageCapacities,
  type KubeObject,
  nodes,
  type PersistentVolumeClaim,
  type Pod,
  persistentVolumeClaims,
  persistentVolumes,
  type Resource,
  type StorageClass,
  type Stored,
  storageClasses,
} from '../../kube/resource.ts';
import { podsOfNodes, type Reader } from './read.ts';

/** An object of a file that is checked: its pods are what they would be. */
type Written = Stored<KubeObject>;

interface Workload extends KubeObject {
  readonly spec?: {
    readonly template?: { readonly metadata?: KubeObject['metadata']; readonly spec?: Pod['spec'] };
    readonly jobTemplate?: { readonly spec?: { readonly template?: { readonly spec?: Pod['spec'] } } };
    readonly volumeClaimTemplates?: readonly PersistentVolumeClaim[];
  };
}

/** Whether the objects of a file would wait, each in one sentence. Kinds that have nothing to do with volumes are left out. */
export async function beforeApplying(
  written: readonly KubeObject[],
  namespace: string,
  reader: Reader,
): Promise<readonly Explanation[]> {
  const objects = written.map((object) => asStored(object, namespace));
  const ownClasses = objects.filter((object) => isOf(storageClasses, object));
  const ownClaims = objects.filter((object) => isOf(persistentVolumeClaims, object));
  const pods = objects.flatMap(podOf);
  const claims = [...ownClaims, ...pods.flatMap((each) => each.claims)];
  const known = new Known(
    await around(
      claims,
      ownClasses,
      pods.map(({ pod }) => pod),
      reader,
    ),
  );
  const found = [
    ...ownClasses.map((each) => explanation(`StorageClass ${each.metadata.name}`, ofClass(each, known), 'cannot work')),
    ...ownClaims.map((each) => explanation(`claim ${each.metadata.name}`, ofClaim(each, known), 'would wait')),
    ...pods.map(({ subject, pod }) => explanation(subject, ofPod(pod, known), 'would wait')),
  ];
  if (found.length > 0) return found;
  throw new InvalidInput('the file has no StorageClass, claim, pod, or object that creates pods');
}

function isOf<T extends KubeObject>({ kind }: Resource<T>, object: Written): object is Stored<T> {
  return object.kind === kind;
}

/** As the API server would return it. It is never created, so it has no uid that something could refer to. */
function asStored<T extends KubeObject>(object: T, namespace: string): Stored<T> {
  const { name = '', ...rest } = object.metadata ?? {};
  const isCluster = object.kind === storageClasses.kind;
  const place = isCluster ? {} : { namespace: rest.namespace ?? namespace };
  return {
    ...(withTexts(object) as T),
    metadata: { ...rest, ...place, name, uid: '', resourceVersion: '', creationTimestamp: '' },
  };
}

/** Quantities may be written as numbers. */
function withTexts(value: unknown, isQuantity = false): unknown {
  if (Array.isArray(value)) return value.map((each) => withTexts(each));
  if (typeof value !== 'object' || value === null)
    return isQuantity && typeof value === 'number' ? String(value) : value;
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [
      key,
      withTexts(each, isQuantity || key === 'requests' || key === 'limits'),
    ]),
  );
}

/** The first pod that an object would create, with the claims of its templates. */
function podOf(
  object: Written,
): readonly { readonly subject: string; readonly pod: Stored<Pod>; readonly claims: readonly Claim[] }[] {
  const { kind = '', metadata } = object;
  const { spec } = object as Workload;
  const podSpec =
    kind === 'Pod' ? (object as Pod).spec : (spec?.template?.spec ?? spec?.jobTemplate?.spec?.template?.spec);
  if (!podSpec?.containers) return [];
  const name = kind === 'StatefulSet' ? `${metadata.name}-0` : metadata.name;
  const templates = spec?.volumeClaimTemplates ?? [];
  const claims = templates.map((template): Claim => {
    const { namespace = '' } = metadata;
    const named = { ...template.metadata, name: `${template.metadata?.name}-${name}`, namespace };
    return { ...asStored({ ...template, metadata: named }, namespace), status: { phase: 'Pending' } };
  });
  const volumes = [
    ...(podSpec.volumes ?? []),
    ...claims.map((claim, i) => ({
      name: templates[i]?.metadata?.name ?? '',
      persistentVolumeClaim: { claimName: claim.metadata.name },
    })),
  ];
  const pod: Stored<Pod> = {
    metadata: { ...metadata, name },
    spec: { ...podSpec, volumes },
    status: { phase: 'Pending' },
  };
  return [{ subject: kind === 'Pod' ? `pod ${name}` : `${kind} ${metadata.name}`, pod, claims }];
}

/** The cluster, with the classes and claims of the file in it. */
async function around(
  claims: readonly Claim[],
  classes: readonly Stored<StorageClass>[],
  pods: readonly Stored<Pod>[],
  reader: Reader,
): Promise<Objects> {
  const existing = await reader.list(storageClasses);
  const own = new Set(classes.map(({ metadata }) => metadata.name));
  const wanted = pods.flatMap((pod) =>
    claimNamesOf(pod).filter((name) => !claims.some(({ metadata }) => metadata.name === name)),
  );
  const [namespace] = pods.map(({ metadata }) => metadata.namespace);
  const used = await reader.get(persistentVolumeClaims, wanted, namespace);
  const found = await reader.list(nodes);
  const names = found?.map(({ metadata }) => metadata.name) ?? [];
  return {
    storageClasses: existing && [...existing.filter(({ metadata }) => !own.has(metadata.name)), ...classes],
    claims: used && [...claims, ...used],
    persistentVolumes: await reader.list(persistentVolumes),
    csiDrivers: await reader.list(csiDrivers),
    nodes: found,
    csiNodes: await reader.list(csiNodes),
    capacities: classes.length > 0 ? undefined : await reader.list(csiStorageCapacities),
    podsOfNodes: pods.length > 0 ? await podsOfNodes(names, reader) : undefined,
    events: [],
    moves: [],
    logicalVolumes: [],
  };
}

function ofClass(own: Stored<StorageClass>, known: Known): Finding {
  const problem = classProblem(own, editing);
  if (problem) return problem;
  if (own.provisioner !== driverName) return { code: 'Fine', cause: `is of the provisioner ${own.provisioner}` };
  return places({ spec: { resources: { requests: { storage: '1' } } } }, own, known);
}

function ofClaim(claim: Claim, known: Known): Finding {
  return problemOfClass(claim, known) ?? unboundReason(claim, known) ?? places(claim, known.classOf(claim), known);
}

/** A class of the file has no uid. */
function problemOfClass(claim: Claim, known: Known): Finding | undefined {
  const own = known.classOf(claim);
  const problem = own && classProblem(own, own.metadata.uid === '' ? editing : undefined);
  return problem && because(`StorageClass ${own.metadata.name} cannot work: `, problem);
}

function ofPod(pod: Stored<Pod>, known: Known): Finding {
  const unbound = known.volumesOf(pod).filter(({ claim }) => !claim.spec?.volumeName);
  const [problem] = unbound.flatMap(({ claim }) => problemOfClass(claim, known) ?? []);
  const found = problem ?? wouldBypass(pod, known) ?? schedulingReason(pod, known);
  if (found.code !== 'NotScheduled') return found;
  const free = (known.objects.nodes ?? []).filter(
    (node) => nodeObstacles(pod, known.volumesOf(pod), known.factsOf(node)).length === 0,
  );
  return seen(free.map(({ metadata }) => metadata.name));
}

/** It has no constraints. */
const anyPod: Pod = {};

/** Where a volume could be. */
function places(claim: PersistentVolumeClaim, storageClass: StorageClass | undefined, known: Known): Finding {
  const all = known.objects.nodes ?? [];
  const obstacles = all.map((node) => nodeObstacles(anyPod, [{ claim, storageClass }], known.factsOf(node)));
  const free = all.filter((_, i) => obstacles[i]?.length === 0).map(({ metadata }) => metadata.name);
  if (free.length > 0 || all.length === 0) return seen(free);
  const evidence = all.map(
    ({ metadata }, i) => `Node ${metadata.name}: ${listed(obstacles[i]?.map(({ text }) => text) ?? [])}`,
  );
  return {
    code: 'NoNodeLeft',
    cause: 'no node can have its volume',
    advice: 'see the obstacle of each node',
    evidence,
  };
}

function seen(free: readonly string[]): Finding {
  const cause =
    free.length > 0 ? `would not wait: no obstacle seen on ${listed(free)}` : 'would not wait, as far as is known';
  return { code: 'Fine', cause };
}

import { isDeepStrictEqual } from 'node:util';
import { InvalidInput } from '../base/errors.ts';
import {
  movesOf,
  type PodOnVolumeNode,
  placementIn,
  podsAfterChange,
  tooLarge,
  type Workload,
} from '../explain/inline-change.ts';
import type { KubeClient } from '../kube/client.ts';
import { deployments, type KubeObject, type Resource, statefulSets } from '../kube/resource.ts';
import { objectsIn } from './manifests.ts';
import { type Column, type Terminal, table } from './terminal.ts';

/** What a file changes for the pods of one workload. */
export interface CheckedWorkload {
  readonly kind: Workload['kind'];
  readonly namespace: string;
  readonly name: string;
  /** Whether its pods are created or replaced; false if they stay as they are. */
  readonly replacesPods: boolean;
  /** Those with a volume. */
  readonly pods: readonly PodOnVolumeNode[];
}

const checkedKinds: readonly string[] = ['StatefulSet', 'Deployment', 'Pod'] satisfies Workload['kind'][];

/** The workloads of a file. Other objects in it are passed over. */
export function workloadsIn(text: string, file: string, namespace: string): readonly Workload[] {
  const found = objectsIn(text, file)
    .filter(({ kind = '' }) => checkedKinds.includes(kind))
    .map((object) => ({ ...object, metadata: { namespace, ...object.metadata } }) as Workload);
  if (found.length > 0) return found;
  throw new InvalidInput(`${file} has no ${checkedKinds.join(', ')}; pass the file that you would apply`);
}

/** Changes nothing: the API server is only asked what would change. */
export async function checkWorkload(
  client: KubeClient,
  workload: Workload,
  signal: AbortSignal,
): Promise<CheckedWorkload> {
  const { name = '', namespace = '' } = workload.metadata ?? {};
  const { changed, replacesPods } = await asChanged(client, workload, signal);
  const pods: PodOnVolumeNode[] = [];
  if (replacesPods) for await (const pod of podsAfterChange(changed, placementIn(client, signal))) pods.push(pod);
  return { kind: workload.kind, namespace, name, replacesPods, pods };
}

/** The workload as the API server would store it, with its defaults; as written if it does not exist yet. */
async function asChanged(
  client: KubeClient,
  workload: Workload,
  signal: AbortSignal,
): Promise<{ readonly changed: Workload; readonly replacesPods: boolean }> {
  const asWritten = { changed: workload, replacesPods: true };
  if (workload.kind === 'Pod') return asWritten;
  const { name = '', namespace } = workload.metadata ?? {};
  const resource: Resource<KubeObject> = workload.kind === 'StatefulSet' ? statefulSets : deployments;
  const current = (await client.get(resource, name, { namespace, signal })) as Workload | undefined;
  if (!current || current.kind === 'Pod') return asWritten;
  // What the file leaves out of the spec stays as it is, except in the template of the pods.
  const body = Object.entries(workload.spec ?? {}).map(([field, value]) => {
    return { op: 'add', path: `/spec/${field}`, value } as const;
  });
  const dryRun = { namespace, dryRun: true, signal };
  const changed = (await client.patch(resource, name, { type: 'json', body }, dryRun)) as Workload;
  if (changed.kind === 'Pod') return asWritten;
  return { changed, replacesPods: !isDeepStrictEqual(changed.spec?.template, current.spec?.template) };
}

const columns: readonly Column<PodOnVolumeNode>[] = [
  { title: 'POD', cell: ({ pod }) => pod },
  { title: 'NODE', cell: ({ node }) => node },
  { title: 'CLAIMS', cell: ({ claims }) => claims.join(', ') },
  {
    title: 'STARTS AGAIN THERE',
    cell: ({ obstacles }) =>
      obstacles.length > 0 ? { text: `no: ${obstacles.join(', ')}`, colour: 'red' } : 'no obstacle seen',
    atLeast: 24,
    isSentence: true,
  },
];

export function checkScreen(checked: readonly CheckedWorkload[], terminal: Terminal): string {
  return checked.map((each) => [summary(each), ...details(each, terminal)].join('\n')).join('\n\n');
}

function summary({ kind, namespace, name, replacesPods, pods }: CheckedWorkload): string {
  const subject = `${kind} ${namespace}/${name}`;
  if (!replacesPods) return `${subject}: its pods stay as they are.`;
  if (pods.length === 0) return `${subject}: no pod has a volume of Moorage yet, so the scheduler may choose any node.`;
  const stuck = stuckIn(pods).length;
  return stuck === 0
    ? `${subject}: pods are replaced, and keep their volumes.`
    : `${subject}: ${stuck} of ${pods.length} pods would not start again beside their data.`;
}

function details({ pods }: CheckedWorkload, terminal: Terminal): readonly string[] {
  if (pods.length === 0) return [];
  const stuck = stuckIn(pods);
  const large = stuck.filter((each) => each.isTooLarge).map(({ pod }) => `Pod ${pod}: ${tooLarge}.`);
  const moves = stuck.filter((each) => !each.isTooLarge).flatMap(movesOf);
  return [
    table(columns, pods, terminal),
    ...large,
    ...(moves.length > 0 ? ['To move their data first:', ...moves.map((move) => `  ${move}`)] : []),
  ];
}

export function stuckIn(pods: readonly PodOnVolumeNode[]): readonly PodOnVolumeNode[] {
  return pods.filter(({ obstacles }) => obstacles.length > 0);
}

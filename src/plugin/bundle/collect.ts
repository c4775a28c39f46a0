import { stringify } from 'yaml';
import { logicalVolumes } from '../../api/logical-volume.ts';
import { driverName } from '../../api/names.ts';
import { volumeMoves } from '../../api/volume-move.ts';
import { messageOf } from '../../base/errors.ts';
import { ApiError } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import {
  claimNamesOf,
  type Event,
  events,
  type KubeObject,
  keyOf,
  type Pod,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type Resource,
  type Stored,
} from '../../kube/resource.ts';
import { diagnosisOf } from '../doctor/diagnose.ts';
import { type CustomResourceDefinition, type Reading, type Readings, readInstallation } from '../doctor/observed.ts';
import { doctorScreen } from '../doctor/screen.ts';
import { staticVolumeFacts } from '../static-volumes.ts';
import { redact, redactUserPod, scrub } from './redact.ts';

/** One file of the bundle. */
export interface BundleFile {
  readonly name: string;
  readonly text: string;
}

/** Of each container, from its end. */
const log = { tailLines: 5000, limitBytes: 1024 * 1024 };
const metricsPort = 8080;

/**
 * What a bug report needs, with the rights of the user, one file after the other. Secrets are never read, and what may hold
 * one is redacted. What could not be read is in `not-read.txt`.
 */
export async function* bundleFiles(
  client: KubeClient,
  version: string,
  signal: AbortSignal,
): AsyncGenerator<BundleFile, void, void> {
  const notRead: string[] = [];
  const attempt = async <T>(what: string, read: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      notRead.push(`${what}: ${messageOf(error)}`);
      return undefined;
    }
  };
  const list = async <T extends KubeObject>(resource: Resource<T>): Promise<Stored<T>[]> =>
    (await attempt(resource.plural, async () => (await client.list(resource, { signal })).items)) ?? [];

  const { readings, nowMs } = await readInstallation(client, signal);
  const { facts: _, ...objects } = readings;
  const diagnosis = diagnosisOf(readings, { version, nowMs });
  yield { name: 'doctor.txt', text: doctorScreen(diagnosis, { columns: undefined, colours: false }) };
  yield { name: 'doctor.json', text: JSON.stringify(diagnosis, undefined, 2) };
  yield { name: 'versions.yaml', text: stringify({ plugin: version, time: new Date(nowMs).toISOString() }) };
  yield* installationFiles(objects);

  yield objectsFile('logicalvolumes', (await list(logicalVolumes)).map(redact));
  yield objectsFile('volumemoves', (await list(volumeMoves)).map(redact));
  const volumes = (await list(persistentVolumes)).filter(
    (volume) => volume.spec?.csi?.driver === driverName || staticVolumeFacts(volume) !== undefined,
  );
  yield objectsFile('persistentvolumes', volumes.map(redact));
  const claims = (await list(persistentVolumeClaims)).filter(claimFilter(volumes, readings));
  yield objectsFile('persistentvolumeclaims', claims.map(redact));
  const claimKeys = new Set(claims.map(keyOf));
  const users = (await list(pods)).filter((pod) =>
    claimNamesOf(pod).some((claim) => claimKeys.has(`${pod.metadata.namespace}/${claim}`)),
  );
  yield objectsFile('pods-with-volumes', users.map(redactUserPod));
  const own = readings.pods.kind === 'read' ? readings.pods.value : [];
  const isRelevant = eventFilter(own, [...volumes, ...claims, ...users]);
  yield objectsFile('events', (await list(events)).filter(isRelevant).map(redact));

  for (const pod of own) yield* podFiles(client, pod, attempt, signal);
  yield { name: 'not-read.txt', text: notRead.join('\n') };
}

/** A CRD is long, and its schema is known by its version. */
function shortened({ metadata, spec, status }: Stored<CustomResourceDefinition>): KubeObject {
  const versions = spec.versions.map(({ name, served, storage }) => ({ name, served, storage }));
  return { metadata, spec: { versions }, status: { conditions: status?.conditions } } as KubeObject;
}

/** What doctor has read; volumes and claims follow in full. */
function* installationFiles({ crds, ...readings }: Omit<Readings, 'facts'>): Generator<BundleFile, void, void> {
  const ours = /moorage\.dev$|topolvm/;
  const shortCrds: Reading<readonly KubeObject[]> =
    crds.kind === 'read'
      ? { ...crds, value: crds.value.filter(({ metadata }) => ours.test(metadata.name)).map(shortened) }
      : crds;
  for (const [name, reading] of Object.entries({ ...readings, crds: shortCrds })) {
    if (reading.kind === 'read') yield objectsFile(name.toLowerCase(), reading.value.map(redact));
    else yield { name: `objects/${name.toLowerCase()}.yaml`, text: `# not read: ${reading.reason}\n` };
  }
}

function claimFilter(volumes: readonly KubeObject[], { storageClasses }: Readings) {
  const bound = new Set(volumes.map(({ metadata }) => metadata?.name));
  const ours =
    storageClasses.kind === 'read' ? storageClasses.value.filter((each) => each.provisioner === driverName) : [];
  const classes = new Set(ours.map(({ metadata }) => metadata.name));
  return ({ spec }: { spec?: { volumeName?: string; storageClassName?: string } }) =>
    bound.has(spec?.volumeName ?? '') || classes.has(spec?.storageClassName ?? '');
}

function eventFilter(own: readonly Stored<Pod>[], about: readonly Stored<KubeObject>[]) {
  const namespaces = new Set(own.map(({ metadata }) => metadata.namespace));
  const uids = new Set(about.map(({ metadata }) => metadata.uid));
  return ({ metadata, regarding }: Stored<Event>) =>
    namespaces.has(metadata.namespace) || uids.has(regarding?.uid ?? '') || regarding?.kind === 'Node';
}

function objectsFile(name: string, items: readonly unknown[]): BundleFile {
  return { name: `objects/${name}.yaml`, text: stringify({ items }, { aliasDuplicateObjects: false }) };
}

async function* podFiles(
  client: KubeClient,
  pod: Stored<Pod>,
  attempt: <T>(what: string, read: () => Promise<T>) => Promise<T | undefined>,
  signal: AbortSignal,
): AsyncGenerator<BundleFile, void, void> {
  const { name, namespace } = pod.metadata;
  for (const { name: container, restartCount } of pod.status?.containerStatuses ?? []) {
    for (const previous of restartCount > 0 ? [false, true] : [false]) {
      const file = `logs/${name}/${container}${previous ? '.previous' : ''}.log`;
      const text = await attempt(file, () => client.log(name, { namespace, container, previous, ...log, signal }));
      if (text !== undefined) yield { name: file, text: scrub(text) };
    }
  }
  const file = `metrics/${name}.txt`;
  const path = { port: metricsPort, path: '/metrics' };
  const metrics = await attempt(file, () => client.fromPod(name, { namespace, ...path, signal }));
  if (metrics !== undefined) yield { name: file, text: metrics };
}

import { failureOf, type LogicalVolume, logicalVolumes, type StoredLogicalVolume } from '../../api/logical-volume.ts';
import { systemClock } from '../../base/clock.ts';
import { MoorageError } from '../../base/errors.ts';
import type { KubeClient } from '../../kube/client.ts';
import { Informer } from '../../kube/informer.ts';
import type { KubeObject, Resource } from '../../kube/resource.ts';
import { noLog } from '../connect.ts';

/** An object to create, or as it is after a change. */
export interface Manifest extends KubeObject {
  readonly metadata: NonNullable<KubeObject['metadata']> & { readonly name: string };
  readonly spec?: object;
}

/** One write. `object` is what the cluster has afterwards, for `--dry-run`. */
export interface Write {
  readonly verb: 'create' | 'patch';
  readonly resource: Resource<KubeObject>;
  readonly object: Manifest;
  /** For `patch`: a merge patch that names the resourceVersion, so that it fails after another client's write. */
  readonly body?: object;
}

export interface ClaimKey {
  readonly namespace: string;
  readonly name: string;
}

const adoptionMs = 60_000;

/** After a LogicalVolume is created, waits until its node has adopted the volume: nothing may refer to it before. */
export async function write(
  client: KubeClient,
  { verb, resource, object, body }: Write,
  signal: AbortSignal,
): Promise<void> {
  const { name, namespace } = object.metadata;
  if (verb === 'patch') {
    await client.patch(resource, name, { type: 'merge', body: body ?? {} }, { namespace, signal });
    return;
  }
  await client.create(resource, object, { signal });
  if (resource.kind === logicalVolumes.kind) await adopted(client, name, signal);
}

export async function adopted(client: KubeClient, name: string, signal: AbortSignal): Promise<void> {
  const volumes = new Informer<LogicalVolume>({
    client,
    resource: logicalVolumes,
    fieldSelector: `metadata.name=${name}`,
    clock: systemClock,
    log: noLog,
  });
  volumes.start();
  const isAnswered = (volume: StoredLogicalVolume | undefined) =>
    volume !== undefined && (Boolean(volume.status?.volumeID) || failureOf(volume) !== undefined);
  try {
    const volume = await volumes.until(name, isAnswered, AbortSignal.any([signal, AbortSignal.timeout(adoptionMs)]));
    const failure = volume && failureOf(volume);
    if (failure) throw new NotAdopted(`${failure.message}; delete LogicalVolume ${name} before you try again`);
  } catch (error) {
    if (signal.aborted || error instanceof MoorageError) throw error;
    throw new NotAdopted(
      `the node did not answer within a minute for LogicalVolume ${name}; check its agent, then run the command again`,
    );
  } finally {
    await volumes.stop();
  }
}

export class NotAdopted extends MoorageError {
  readonly code = 'FailedPrecondition';
}

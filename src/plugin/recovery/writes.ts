import { failureOf, type LogicalVolume, logicalVolumes } from '../../api/logical-volume.ts';
import { adoptAnnotation, claimKey, createdByLabel, logicalVolume, luks2, parameters } from '../../api/names.ts';
import { systemClock } from '../../base/clock.ts';
import { MoorageError } from '../../base/errors.ts';
import type { KubeClient } from '../../kube/client.ts';
import { Informer } from '../../kube/informer.ts';
import { apiVersionOf, type KubeObject, type Resource, type Stored } from '../../kube/resource.ts';
import type { ClaimKey } from '../claim-ref.ts';
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

/** A volume that is on the disks of its node. */
export interface ExistingVolume {
  /** Its name on the disks. */
  readonly id: string;
  readonly nodeName: string;
  /** Undefined for the default class of the node. */
  readonly deviceClass: string | undefined;
  readonly size: string;
  readonly claim: ClaimKey | undefined;
  readonly isEncrypted: boolean;
}

/** Names the volume on the disks, so that its node adopts it instead of creating an empty one. */
export function adoptingLogicalVolume(
  name: string,
  { id, nodeName, deviceClass, size, claim, isEncrypted }: ExistingVolume,
): Manifest {
  return {
    apiVersion: apiVersionOf(logicalVolumes),
    kind: logicalVolumes.kind,
    metadata: {
      name,
      labels: { [createdByLabel.key]: createdByLabel.value },
      annotations: {
        [adoptAnnotation]: id,
        ...(claim && { [claimKey]: `${claim.namespace}/${claim.name}` }),
        ...(isEncrypted && { [parameters.encryption]: luks2 }),
      },
      finalizers: [logicalVolume.finalizer],
    },
    spec: { name, nodeName, ...(deviceClass && { deviceClass }), size },
  };
}

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
  if (resource.kind === logicalVolumes.kind) await untilAdopted(client, name, signal);
}

export async function untilAdopted(client: KubeClient, name: string, signal: AbortSignal): Promise<void> {
  const late = new NotAdopted(
    `the node did not answer within a minute for LogicalVolume ${name}; check its agent, then run the command again`,
  );
  const isAnswered = (volume: Stored<LogicalVolume> | undefined) =>
    volume !== undefined && (Boolean(volume.status?.volumeID) || failureOf(volume) !== undefined);
  const volume = await untilObject(client, logicalVolumes, name, { isWanted: isAnswered, late }, signal);
  const failure = volume && failureOf(volume);
  if (failure)
    throw new NotAdopted(
      `${failure.message}; kubectl moorage orphans shows what to do with LogicalVolume ${name} before you try again`,
    );
}

const waitMs = 60_000;

export interface Expectation<T extends KubeObject> {
  /** Gets undefined while there is no such object. */
  readonly isWanted: (object: Stored<T> | undefined) => boolean;
  /** Thrown after a minute. */
  readonly late: MoorageError;
}

/** Waits until one object, which has no namespace, is as wanted. */
export async function untilObject<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  name: string,
  { isWanted, late }: Expectation<T>,
  signal: AbortSignal,
): Promise<Stored<T> | undefined> {
  const fieldSelector = `metadata.name=${name}`;
  const objects = new Informer<T>({ client, resource, fieldSelector, clock: systemClock, log: noLog });
  objects.start();
  try {
    return await objects.until(name, isWanted, AbortSignal.any([signal, AbortSignal.timeout(waitMs)]));
  } catch (error) {
    if (signal.aborted || error instanceof MoorageError) throw error;
    throw late;
  } finally {
    await objects.stop();
  }
}

export class NotAdopted extends MoorageError {
  readonly code = 'FailedPrecondition';
}

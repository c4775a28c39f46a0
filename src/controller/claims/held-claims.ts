import { oldClaimFinalizers } from '../../api/names.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import type { Log } from '../../base/log.ts';
import type { Work } from '../../base/work.ts';
import { isConflict, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Informer } from '../../kube/informer.ts';
import { type PersistentVolumeClaim, persistentVolumeClaims, type Stored } from '../../kube/resource.ts';

/** A claim that is being deleted but still has TopoLVM's finalizer, which nothing else would remove. */
export interface HeldClaim {
  readonly namespace: string;
  readonly name: string;
  readonly resourceVersion: string;
  /** The finalizers to keep. */
  readonly finalizers: readonly string[];
}

/** Undefined for most claims, to save memory. */
export function heldClaim({ metadata }: Stored<PersistentVolumeClaim>): HeldClaim | undefined {
  const { namespace = '', name, resourceVersion, deletionTimestamp, finalizers = [] } = metadata;
  if (deletionTimestamp === undefined || !finalizers.some(isOld)) return undefined;
  return { namespace, name, resourceVersion, finalizers: finalizers.filter((finalizer) => !isOld(finalizer)) };
}

interface Collaborators {
  readonly client: Pick<KubeClient, 'patch'>;
  /** The claims of all namespaces. */
  readonly claims: Pick<Informer<PersistentVolumeClaim, { readonly held: HeldClaim | undefined }>, 'get' | 'onChange'>;
  readonly log: Log;
}

/**
 * Removes the finalizers that TopoLVM 0.18 to 0.39 put on claims, but only from claims that are being deleted. Other claims
 * keep them, in case TopoLVM takes over again.
 */
export function heldClaims({ client, claims, log }: Collaborators): Work {
  const watch: Work['watch'] = (queue) => [
    claims.onChange(({ kind, key, object }) => {
      if (kind !== 'deleted' && object.held) queue.add(key);
    }),
  ];
  const reconcile = async (key: string, signal: AbortSignal): Promise<Requeue> => {
    const held = claims.get(key)?.held;
    if (!held) return Requeue.never;
    const { namespace, name, resourceVersion, finalizers } = held;
    const body = { metadata: { resourceVersion, finalizers } };
    try {
      await client.patch(persistentVolumeClaims, name, { type: 'merge', body }, { namespace, signal });
      log.info({ namespace, name }, "removed TopoLVM's finalizer from a claim that is being deleted");
    } catch (error) {
      if (!isConflict(error) && !isNotFound(error)) throw error; // it has changed since; the watch will report it
    }
    return Requeue.never;
  };
  return { name: 'held-claims', watch, reconcile, concurrency: 1, leaderOnly: true };
}

function isOld(finalizer: string): boolean {
  return oldClaimFinalizers.some((old) => old === finalizer);
}

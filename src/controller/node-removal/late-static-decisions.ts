import { localPvAnnotations } from '../../api/local-pv.ts';
import { nodeRemovedAnnotation } from '../../api/names.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import type { Work } from '../../base/work.ts';
import type { Informer } from '../../kube/informer.ts';
import {
  type Node,
  nodes,
  type PersistentVolume,
  type PersistentVolumeClaim,
  persistentVolumeClaims,
  persistentVolumes,
  type Stored,
} from '../../kube/resource.ts';
import type { MaybeStatic } from '../local-pv/static-volumes.ts';
import type { DecidedClaim } from './late-decisions.ts';
import { claimOf, decisionIn, ourVolume } from './plan.ts';
import { Release, type ReleaseCollaborators } from './release.ts';

interface Collaborators extends ReleaseCollaborators {
  readonly persistentVolumes: Pick<Informer<PersistentVolume, MaybeStatic>, 'get' | 'list' | 'onChange'>;
  /** The claims of all namespaces. */
  readonly claims: Pick<Informer<PersistentVolumeClaim, { readonly decided: DecidedClaim | undefined }>, 'onChange'>;
  readonly nodes: Pick<Informer<Node, { readonly name: string }>, 'onChange'>;
}

/**
 * Does what people decide about the claims of static volumes after their node was removed, as `lateDecisions` does for
 * others. The record of the removal is on the PersistentVolume, and is withdrawn when a Node of that name is back.
 */
export function lateStaticDecisions(collaborators: Collaborators): Work {
  const { client, persistentVolumes: watched, claims, nodes: watchedNodes } = collaborators;
  const removedFrom = (name: string) => {
    const volume = watched.get(name)?.asStatic;
    return volume && removedNode(volume);
  };
  const watch: Work['watch'] = (queue) => [
    watched.onChange(({ kind, key }) => {
      if (kind !== 'deleted' && removedFrom(key)) queue.add(key);
    }),
    claims.onChange(({ kind, object: { decided } }) => {
      if (kind !== 'deleted' && decided && removedFrom(decided.volumeName)) queue.add(decided.volumeName);
    }),
    watchedNodes.onChange(({ kind, object }) => {
      if (kind !== 'deleted') return;
      const names = watched.list().flatMap(({ asStatic }) => asStatic?.metadata.name ?? []);
      for (const name of names) if (removedFrom(name)?.name === object.name) queue.add(name);
    }),
  ];

  const reconcile = async (name: string, signal: AbortSignal): Promise<Requeue> => {
    const stored = await client.get(persistentVolumes, name, { signal }); // the record may just have been withdrawn
    const node = stored && removedNode(stored);
    const volume = stored && ourVolume(stored);
    if (!node || !volume || (await client.get(nodes, node.name, { signal }))) return Requeue.never;
    const { namespace = '', name: claimName = '', uid } = stored.spec?.claimRef ?? {};
    const found = claimName ? await client.get(persistentVolumeClaims, claimName, { namespace, signal }) : undefined;
    if (!found || found.metadata.uid !== uid) return Requeue.never;
    const claim = claimOf(found);
    const policy = decisionIn(claim);
    if (!policy) return Requeue.never;
    const release = new Release(collaborators, node, signal);
    await release.retain([{ claim, policy, volume }]);
    await release.deleteClaims([{ claim, policy, volume }]);
    await release.deletePodsOf([claim]);
    return Requeue.never;
  };

  return { name: 'late-static-decisions', watch, reconcile, concurrency: 1, leaderOnly: true };
}

/** Undefined unless its node was removed on purpose. */
function removedNode({ metadata }: Stored<PersistentVolume>) {
  const { [localPvAnnotations.node]: name, [nodeRemovedAnnotation]: uid } = metadata.annotations ?? {};
  return name !== undefined && uid !== undefined ? { name, uid } : undefined;
}

import { localPvFinalizer } from '../../api/local-pv.ts';
import type { Clock } from '../../base/clock.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import type { Log } from '../../base/log.ts';
import type { Work } from '../../base/work.ts';
import { isConflict, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type Reporter, writeEvent } from '../../kube/events.ts';
import type { Informer } from '../../kube/informer.ts';
import {
  type ConfigMap,
  type Node,
  nodes,
  type PersistentVolume,
  persistentVolumes,
  type Stored,
} from '../../kube/resource.ts';
import { isStaticVolume } from '../../local-pv/static-volume.ts';
import { changeOf, type KnownNode, nextStep, type Surroundings } from './next-step.ts';

/** The PersistentVolume of a static volume, complete. Undefined for others, to save memory. */
export function ourStaticVolume(
  volume: Stored<PersistentVolume>,
  mountBase: string,
): Stored<PersistentVolume> | undefined {
  const isOurs = isStaticVolume(volume, mountBase) || volume.metadata.finalizers?.includes(localPvFinalizer);
  if (!isOurs) return undefined;
  const { managedFields: _, ...metadata } = volume.metadata;
  return { ...volume, metadata };
}

/** What the watch of PersistentVolumes keeps of each. */
export interface MaybeStatic {
  readonly asStatic?: Stored<PersistentVolume>;
}

interface Collaborators extends Pick<Surroundings, 'defaults' | 'mountBase'> {
  readonly client: Pick<KubeClient, 'create' | 'get' | 'patch'>;
  readonly volumes: Pick<Informer<PersistentVolume, MaybeStatic>, 'get' | 'list' | 'onChange'>;
  readonly nodes: Pick<Informer<Node, KnownNode>, 'list' | 'onChange' | 'whenSynced'>;
  /** The ConfigMap with the defaults, if there is one. */
  readonly configMap: Pick<Informer<ConfigMap>, 'onChange' | 'whenSynced'> | undefined;
  readonly reporter: Reporter;
  readonly clock: Clock;
  readonly log: Log;
}

/** Finds the nodes of static volumes, and writes what their agents may not. */
export function staticVolumes(collaborators: Collaborators): Work {
  const { client, volumes, nodes: watchedNodes, configMap, reporter, clock, log } = collaborators;

  const watch: Work['watch'] = (queue) => {
    const addAll = () => {
      for (const { asStatic } of volumes.list()) if (asStatic) queue.add(asStatic.metadata.name);
    };
    return [
      volumes.onChange(({ kind, key, object }) => {
        if (kind !== 'deleted' && object.asStatic) queue.add(key);
      }),
      watchedNodes.onChange(({ kind, object, previous }) => {
        if (kind !== 'updated' || !isSame(object, previous)) addAll();
      }),
      ...(configMap ? [configMap.onChange(addAll)] : []),
    ];
  };

  const reconcile = async (name: string, signal: AbortSignal): Promise<Requeue> => {
    // A Node or defaults that are not known yet do not mean that there are none.
    await Promise.all([watchedNodes.whenSynced(signal), configMap?.whenSynced(signal)]);
    const volume = volumes.get(name)?.asStatic;
    if (!volume) return Requeue.never;
    const known = new Map(watchedNodes.list().map((node) => [node.name, node]));
    const step = nextStep(volume, { ...collaborators, nodes: known });
    if (!step) return Requeue.never;
    const { uid, resourceVersion } = volume.metadata;
    if (step.kind === 'report') {
      const about = { resource: persistentVolumes, name, uid };
      await writeEvent(client, reporter, about, step.event, clock.now(), signal);
      return Requeue.never;
    }
    if (step.kind === 'giveUp' && (await client.get(nodes, step.nodeName, { signal }))) return Requeue.never;
    const { metadata, ...rest } = changeOf(step, volume);
    const body = { ...rest, metadata: { ...metadata, uid, resourceVersion } };
    try {
      await client.patch(persistentVolumes, name, { type: 'merge', body }, { signal });
      log.info({ volume: name, ...step }, 'changed the PersistentVolume of a static volume');
    } catch (error) {
      if (!isConflict(error) && !isNotFound(error)) throw error; // it has changed since; the watch reports it
    }
    return Requeue.never;
  };

  return { name: 'static-volumes', watch, reconcile, concurrency: 4, leaderOnly: true };
}

/** Whether a change of the Node, such as of its status, means nothing to static volumes. */
function isSame(node: KnownNode, previous: KnownNode): boolean {
  const entries = Object.entries(node.labels);
  return (
    node.isLeaving === previous.isLeaving &&
    entries.length === Object.keys(previous.labels).length &&
    entries.every(([key, value]) => previous.labels[key] === value)
  );
}

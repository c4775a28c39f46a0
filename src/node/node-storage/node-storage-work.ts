import { isDeepStrictEqual } from 'node:util';
import type { LogicalVolume } from '../../api/logical-volume.ts';
import { nodeStorages } from '../../api/node-storage.ts';
import type { Clock } from '../../base/clock.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import type { Log } from '../../base/log.ts';
import type { Work, WorkQueue } from '../../base/work.ts';
import type { Pools } from '../../engine/pools.ts';
import { isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Informer } from '../../kube/informer.ts';
import type { Node, PersistentVolume } from '../../kube/resource.ts';
import type { NodeEngine } from '../node-engine.ts';
import type { NodeFacts } from '../node-object/node-publisher.ts';
import type { Machine } from './machine.ts';
import type { Orphans } from './orphans.ts';
import { type Content, contentOf, timeOf } from './status.ts';

interface Collaborators {
  readonly nodeName: string;
  readonly client: Pick<KubeClient, 'patch'>;
  /** This node's own Node object. */
  readonly node: Pick<Informer<Node, NodeFacts>, 'get' | 'onChange'>;
  /** Only the LogicalVolumes of this node. */
  readonly volumes: Pick<Informer<LogicalVolume>, 'list' | 'onChange' | 'synced' | 'whenSynced'>;
  /** Only the static PersistentVolumes of this node; undefined if this agent does not know them. */
  readonly staticVolumes: Pick<Informer<PersistentVolume>, 'list' | 'onChange' | 'synced' | 'whenSynced'> | undefined;
  /** The device classes, in which every volume needs an object. */
  readonly pools: Pick<Pools, 'all' | 'unavailable' | 'unserved' | 'onChange'>;
  readonly engine: Pick<NodeEngine, 'allPools' | 'deviceClasses' | 'outdated'>;
  readonly orphans: Orphans;
  /** The uids of the pods on this node; undefined if they are unknown. */
  readonly pods: () => Promise<ReadonlySet<string> | undefined>;
  readonly inspect: (signal: AbortSignal) => Promise<Machine>;
  /** Where the node swaps to; undefined if that is unknown. */
  readonly swap: () => Promise<Content['swap']>;
  readonly clock: Clock;
  readonly log: Log;
}

/** A burst of changes causes one write. */
const burstMs = 1000;
/** The shortest time between two writes. */
const everyMs = 30_000;
/** Nobody reports that the directory of a pod is gone. */
const podsAgainMs = 10 * 60_000;
/** When something happens after this time, the object is written even if it is the same: somebody may have deleted it. */
const confirmMs = 10 * 60_000;
/** How often an API server without the CRD is tried again. */
const absentMs = 60_000;

/**
 * Keeps this node's NodeStorage up to date, for people and tools. It is written when something changes, at most every 30 s,
 * and only while the Node exists, whose uid says which machine this is. Nothing else depends on it.
 */
export function nodeStorageWork(collaborators: Collaborators): Work {
  const { nodeName, client, node, volumes, staticVolumes, pools, engine } = collaborators;
  const { orphans, pods, inspect, swap, clock, log } = collaborators;
  let machine: Machine | undefined;
  let written: { readonly content: Content; readonly updatedAt: string } | undefined;
  let lastMs = Number.NEGATIVE_INFINITY;
  let isAbsent = false;
  const waitMs = () => Math.max(0, lastMs + everyMs - clock.monotonic());

  const watch = (queue: WorkQueue) => {
    const look = () => queue.addAfter(nodeName, Math.max(burstMs, waitMs()));
    const objects = staticVolumes ? [volumes, staticVolumes] : [volumes];
    for (const each of objects) each.whenSynced().then(look, () => undefined); // rejected if the process stops first
    return [node, ...objects, pools, engine.allPools].map((each) => each.onChange(look));
  };

  const write = async (content: Content, updatedAt: string, signal: AbortSignal): Promise<void> => {
    const body = { status: { ...content, updatedAt } };
    try {
      await client.patch(nodeStorages, nodeName, { type: 'apply', body, fieldManager, force: true }, { signal });
      written = { content, updatedAt };
      isAbsent = false;
    } catch (error) {
      if (!isNotFound(error)) throw error;
      if (!isAbsent)
        log.warn(`the API server has no CRD ${crdName}, so this node does not report its storage; apply it`);
      isAbsent = true;
    }
    lastMs = clock.monotonic();
  };

  const reconcile = async (_: string, signal: AbortSignal): Promise<Requeue> => {
    const nodeUID = node.get(nodeName)?.uid;
    const isSynced = volumes.synced && (staticVolumes?.synced ?? true);
    if (nodeUID === undefined || !isSynced) return Requeue.never; // their arrival triggers the next run
    machine ??= await inspect(signal);
    const staticUids = staticVolumes && new Set(staticVolumes.list().map(({ metadata }) => metadata.uid));
    const references = { objects: volumes.list(), staticUids, pods: await pods() };
    const found = orphans.find(pools, references, clock.now());
    // After the loss of a cluster, the first report must not say that there is nothing to recover.
    const isTooEarly = !written && found.orphans.length === 0 && found.nextInMs !== undefined;
    if (isTooEarly) return Requeue.after(found.nextInMs);
    const current = { pools: engine.allPools, deviceClasses: engine.deviceClasses(), outdated: engine.outdated() };
    const content = contentOf({ nodeUID, ...machine, swap: await swap(), ...current, orphans: found.orphans });
    const isNew = !isDeepStrictEqual(content, written?.content);
    if (isNew && waitMs() > 0) return Requeue.after(waitMs());
    const isOld = clock.monotonic() - lastMs >= confirmMs;
    if (isNew || isOld) {
      const updatedAt = !isNew && written ? written.updatedAt : timeOf(clock.now());
      await write(content, updatedAt, signal);
    }
    if (isAbsent) return Requeue.after(absentMs);
    const nextInMs = found.nextInMs ?? (found.dependsOnPods ? podsAgainMs : undefined);
    return nextInMs === undefined ? Requeue.never : Requeue.after(nextInMs);
  };
  return { name: 'node-storage', watch, reconcile, concurrency: 1 };
}

const fieldManager = 'moorage-node';
const crdName = `${nodeStorages.plural}.${nodeStorages.group}`;

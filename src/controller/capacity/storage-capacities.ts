import { defaultClassName, driverName, parameters } from '../../api/names.ts';
import type { Clock } from '../../base/clock.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import { RateLimit } from '../../base/rate-limit.ts';
import type { Work, WorkQueue } from '../../base/work.ts';
import { isAlreadyExists, isConflict, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Informer } from '../../kube/informer.ts';
import {
  type CsiDriver,
  type CsiNode,
  type CsiStorageCapacity,
  csiStorageCapacities,
  type Node,
  type StorageClass,
  type Stored,
} from '../../kube/resource.ts';
import { type AnnotatedNode, freeBytesOf } from './annotated-capacities.ts';
import {
  type CapacityStep,
  nextCapacityStep,
  type PublishedCapacity,
  templateNode,
  toCapacityObject,
  toCapacityPatch,
  type WantedCapacity,
} from './plan.ts';

/** The StorageClasses of our driver whose volumes wait for a pod, and so for the scheduler. */
export interface ScheduledClass {
  readonly name: string;
  /** Undefined for other drivers, and for volumes that are created immediately. */
  readonly deviceClass: string | undefined;
}

export interface RegisteredNode {
  readonly name: string;
  readonly hasDriver: boolean;
}

export interface TrackingDriver {
  readonly uid: string;
  /** Whether the scheduler uses CSIStorageCapacity. */
  readonly tracksCapacity: boolean;
}

type Watched<T extends object, P> = Pick<Informer<T, P>, 'get' | 'list' | 'onChange' | 'whenSynced'>;

interface Collaborators {
  readonly namespace: string;
  readonly client: Pick<KubeClient, 'create' | 'patch' | 'delete'>;
  readonly nodes: Watched<Node, AnnotatedNode>;
  readonly csiNodes: Watched<CsiNode, RegisteredNode>;
  readonly classes: Watched<StorageClass, ScheduledClass>;
  readonly driver: Watched<CsiDriver, TrackingDriver>;
  /** The CSIStorageCapacity objects of our driver in the namespace, from any writer. */
  readonly published: Watched<CsiStorageCapacity, PublishedCapacity>;
  /** Free bytes of a node that an autoscaler would add, by device class, `00default` for the default one; none if there is no autoscaler. */
  readonly freshNode: ReadonlyMap<string, bigint>;
  readonly clock: Clock;
}

/** An object that keeps changing is written once a second; one that was stable for a second, at once. */
const updateEveryMs = 1000;
/** For all objects together, to leave the API server time for other work. */
const writes = { burst: 200, perSecond: 200 };
const writesAtOnce = 16;

/**
 * Publishes the free capacity of each node for kube-scheduler, in one CSIStorageCapacity object per node and StorageClass, and
 * of nodes that an autoscaler could add.
 * Changes of Nodes, CSINodes, StorageClasses, the CSIDriver and the objects themselves trigger it. It never polls.
 */
export function storageCapacities(collaborators: Collaborators): Work {
  const { nodes, csiNodes, classes, driver, published, freshNode, clock } = collaborators;
  const publishedOf = new Map<string, Map<string, PublishedCapacity>>();
  const writtenAtMs = new Map<string, number>();
  const rate = new RateLimit({ clock, ...writes });

  const watch = (queue: WorkQueue) => {
    const addNode = (nodeName: string) => {
      for (const { name } of classes.list()) queue.add(keyOf(nodeName, name));
    };
    const addClass = (className: string) => {
      for (const { name } of nodes.list()) queue.add(keyOf(name, className));
      if (freshNode.size > 0) queue.add(keyOf(templateNode, className));
    };
    publishedOf.clear();
    return [
      published.onChange(({ kind, object }) => {
        const key = keyOf(object.nodeName, object.storageClass); // neither can change in the API
        const objects = publishedOf.get(key) ?? new Map<string, PublishedCapacity>();
        if (kind === 'deleted') objects.delete(object.name);
        else objects.set(object.name, object);
        if (objects.size > 0) publishedOf.set(key, objects);
        else publishedOf.delete(key);
        queue.add(key);
      }),
      nodes.onChange(({ kind, object, previous }) => {
        if (kind !== 'updated' || !haveSameRoom(object, previous)) addNode(object.name);
      }),
      csiNodes.onChange(({ kind, object, previous }) => {
        if (kind !== 'updated' || object.hasDriver !== previous.hasDriver) addNode(object.name);
      }),
      classes.onChange(({ object }) => addClass(object.name)),
      driver.onChange(() => {
        for (const { name } of classes.list()) addClass(name);
      }),
    ];
  };

  const reconcile = async (key: string, signal: AbortSignal): Promise<Requeue> => {
    // Until all of these are known, an object that is still needed would look stale.
    await Promise.all([nodes, csiNodes, classes, driver, published].map((watched) => watched.whenSynced(signal)));
    const step = nextCapacityStep(wantedFor(key, collaborators), [...(publishedOf.get(key)?.values() ?? [])]);
    if (step.kind === 'nothing') return Requeue.never;
    const waitMs =
      step.kind === 'update' ? (writtenAtMs.get(key) ?? -updateEveryMs) + updateEveryMs - clock.monotonic() : 0;
    if (waitMs > 0) return Requeue.after(waitMs);
    await rate.take(signal);
    await carryOut(step, collaborators, signal);
    if (step.kind === 'delete') writtenAtMs.delete(key);
    else writtenAtMs.set(key, clock.monotonic());
    return Requeue.never; // the watch reports our write and triggers the next step
  };

  return { name: 'storage-capacities', watch, reconcile, concurrency: writesAtOnce, leaderOnly: true };
}

/** Undefined if the node cannot serve volumes of the class: the scheduler must find no capacity there. */
function wantedFor(
  key: string,
  { nodes, csiNodes, classes, driver, freshNode }: Omit<Collaborators, 'client' | 'published'>,
): WantedCapacity | undefined {
  const [nodeName = '', storageClass = ''] = key.split(' ');
  const owner = driver.get(driverName);
  const deviceClass = classes.get(storageClass)?.deviceClass;
  if (!owner?.tracksCapacity || deviceClass === undefined) return undefined;
  const isReal = nodeName !== templateNode;
  if (isReal && !csiNodes.get(nodeName)?.hasDriver) return undefined;
  const freeBytes = isReal
    ? freeBytesOf(nodes.get(nodeName), deviceClass)
    : freshNode.get(deviceClass || defaultClassName);
  return freeBytes === undefined ? undefined : { nodeName, storageClass, freeBytes, ownerUid: owner.uid };
}

/** After a conflict the watch reports the other write and adds the key again. */
async function carryOut(step: CapacityStep, { client, namespace }: Collaborators, signal: AbortSignal): Promise<void> {
  try {
    switch (step.kind) {
      case 'create':
        await client.create(csiStorageCapacities, toCapacityObject(step.wanted, namespace), { signal });
        break;
      case 'update': {
        const patch = { type: 'merge', body: toCapacityPatch(step.wanted) } as const;
        await client.patch(csiStorageCapacities, step.name, patch, { namespace, signal });
        break;
      }
      case 'delete': {
        const { name, uid } = step.object;
        await client.delete(csiStorageCapacities, name, { namespace, preconditions: { uid }, signal });
        break;
      }
      case 'nothing':
        break;
    }
  } catch (error) {
    if (!isAlreadyExists(error) && !isNotFound(error) && !isConflict(error)) throw error;
  }
}

/** Names of nodes and classes contain no spaces. */
function keyOf(nodeName: string, storageClass: string): string {
  return `${nodeName} ${storageClass}`;
}

function haveSameRoom({ freeBytes }: AnnotatedNode, { freeBytes: previous }: AnnotatedNode): boolean {
  return freeBytes.size === previous.size && [...freeBytes].every(([key, bytes]) => previous.get(key) === bytes);
}

export function scheduledClass({ metadata, provisioner, volumeBindingMode, parameters: given }: Stored<StorageClass>) {
  const isScheduled = provisioner === driverName && volumeBindingMode === 'WaitForFirstConsumer';
  return { name: metadata.name, deviceClass: isScheduled ? (given?.[parameters.deviceClass] ?? '') : undefined };
}

export function registeredNode({ metadata, spec }: Stored<CsiNode>): RegisteredNode {
  const drivers: typeof spec.drivers | null = spec.drivers; // null on a node that has just joined
  return { name: metadata.name, hasDriver: drivers?.some(({ name }) => name === driverName) ?? false };
}

export function trackingDriver({ metadata, spec }: Stored<CsiDriver>): TrackingDriver {
  return { uid: metadata.uid, tracksCapacity: spec.storageCapacity === true };
}

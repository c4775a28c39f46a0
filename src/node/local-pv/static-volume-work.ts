import { isDeepStrictEqual } from 'node:util';
import { localPvAnnotations, localPvStatus } from '../../api/local-pv.ts';
import type { Work, WorkQueue } from '../../base/work.ts';
import type { Informer } from '../../kube/informer.ts';
import type { PersistentVolume } from '../../kube/resource.ts';
import type { Defaults } from '../../local-pv/defaults.ts';
import { stateOf } from '../reconcile/logical-volume-reconciler.ts';
import { findOwn, type StaticVolumePools } from './find-volume.ts';
import type { StaticVolumeReconciler } from './static-volume-reconciler.ts';
import type { StoredPersistentVolume } from './static-volume-writer.ts';

/** The defaults for static volumes, from a ConfigMap that may change. */
export interface DefaultsSource {
  /** Whether the ConfigMap has been read, or there is none to read. */
  readonly synced: boolean;
  /** The last valid ones; throws if there are none. */
  get(): Defaults;
  /** Calls back after each change, and once it is synced; returns a function that unsubscribes. */
  onChange(listener: () => void): () => void;
}

interface Collaborators {
  /** Only the static PersistentVolumes of this node. */
  readonly volumes: Pick<Informer<PersistentVolume>, 'list' | 'onChange'>;
  readonly defaults: Pick<DefaultsSource, 'onChange'>;
  readonly pools: StaticVolumePools;
  readonly reconciler: Pick<StaticVolumeReconciler, 'reconcile'>;
}

/** Limits concurrent commands. Work that takes long runs aside. */
const volumesAtOnce = 8;
/** A burst of changes causes one retry. */
const burstMs = 500;

/** The work for this node's static volumes: different volumes in parallel, each volume step by step. */
export function staticVolumeWork({ volumes, defaults, pools, reconciler }: Collaborators): Work {
  let seen: unknown;
  const watch = (queue: WorkQueue) => [
    volumes.onChange(({ key, kind, object, previous }) => {
      if (kind !== 'updated' || isNews(object, previous)) queue.add(key);
    }),
    defaults.onChange(() => {
      for (const { metadata } of volumes.list()) queue.add(metadata.name);
    }),
    pools.allPools.onChange(() => {
      const unsettled = volumes.list().filter((pv) => !isSettled(pv, pools));
      if (unsettled.length === 0) return;
      // After a failed attempt the pool reads its disks and reports a change; that must not cause a retry.
      const now = stateOf(pools.allPools);
      if (!isDeepStrictEqual(now, seen)) for (const { metadata } of unsettled) queue.addAfter(metadata.name, burstMs);
      seen = now;
    }),
  ];
  return {
    name: 'static-volumes',
    watch,
    reconcile: (name, signal, aside) => reconciler.reconcile(name, signal, aside),
    concurrency: volumesAtOnce,
  };
}

/** A change of a pool does not matter: the volume is there, and nothing is to be done to it. */
function isSettled({ metadata }: StoredPersistentVolume, pools: StaticVolumePools): boolean {
  const isProcessed = metadata.annotations?.[localPvAnnotations.status] === localPvStatus.processed;
  return isProcessed && metadata.deletionTimestamp === undefined && findOwn(pools, metadata) !== undefined;
}

/** Ignores our own answers. A person who removes the status asks for another attempt. */
export function isNews(object: StoredPersistentVolume, previous: StoredPersistentVolume): boolean {
  const statusOf = ({ metadata }: StoredPersistentVolume) => metadata.annotations?.[localPvAnnotations.status];
  const isAnotherAttempt = statusOf(object) === undefined && statusOf(previous) !== undefined;
  return isAnotherAttempt || !isDeepStrictEqual(inputsOf(object), inputsOf(previous));
}

const { status, message, processed, removed, released } = localPvAnnotations;
const answers: ReadonlySet<string> = new Set([status, message, processed, removed, released]);

function inputsOf({ metadata, spec, status }: StoredPersistentVolume): unknown {
  const { annotations = {}, finalizers = [], deletionTimestamp } = metadata;
  const requested = Object.entries(annotations).filter(([name]) => !answers.has(name));
  return { spec, phase: status?.phase, finalizers, deletionTimestamp, annotations: Object.fromEntries(requested) };
}

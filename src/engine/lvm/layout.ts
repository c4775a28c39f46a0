import type { Checkpoints } from '../changes/checkpoint-tracking.ts';
import type { DeviceClass } from '../config/device-classes.ts';
import { contentTags, sourceTag } from '../names-and-tags.ts';
import type { Capacity, NewSnapshot, NewVolume, PoolDetails, VolumeId } from '../pool.ts';
import type { LogicalVolume } from './report.ts';

export type RemoveVolume = (id: VolumeId, signal: AbortSignal) => Promise<unknown>;

/** What differs between thick and thin volumes. A layout decides and runs commands; it does not know its pool. */
export interface Layout {
  /** From memory. */
  capacity(): Capacity;
  details(): PoolDetails;

  /** Within `change`: creates a volume that does not exist. `options` are used instead of those of the class. */
  create(wanted: NewVolume, tags: readonly string[], options: readonly string[] | undefined): Promise<void>;
  /** Within `change`: a volume that is large enough keeps its size. */
  grow(volume: LogicalVolume, sizeBytes: bigint): Promise<void>;
  /** Completes what an earlier call began. */
  snapshot(source: VolumeId, wanted: NewSnapshot, signal: AbortSignal): Promise<LogicalVolume>;
  /** Checkpoints of a volume, for a move. They are removed by `remove` if they have to be erased. */
  checkpoints(volume: VolumeId, remove: RemoveVolume): Checkpoints;
  /** Refuses early: LVM would retry for seconds while all others wait. */
  mustNotBeBeingCopied(id: VolumeId): void;

  /** Called once, after the volumes were activated. */
  start(signal: AbortSignal): Promise<void>;
  reconfigure(deviceClass: DeviceClass): void;
  stop(): Promise<void>;
}

/** The tags of a copy: its own, and those that describe the contents that it shares with its source. */
export function copyTags(source: LogicalVolume, tags: readonly string[]): readonly string[] {
  return [...new Set([...tags, ...contentTags(source.tags), sourceTag(source.name)])];
}

/** The lvcreate arguments that all snapshots share. */
export function snapshotArguments(source: LogicalVolume, { id, tags, access }: NewSnapshot): string[] {
  return [
    ...['lvcreate', '--yes', '--snapshot', '--name', id],
    ...['--permission', access === 'ro' ? 'r' : 'rw'],
    ...copyTags(source, tags).flatMap((tag) => ['--addtag', tag]),
  ];
}

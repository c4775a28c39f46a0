import { CommandFailed } from '../../base/exec.ts';
import { BlockMap } from '../changes/block-map.ts';
import { type Checkpoint, type Checkpoints, NoCheckpoints } from '../changes/checkpoint-tracking.ts';
import type { CheckpointId } from '../changes/position.ts';
import type { ThickClass } from '../config/device-classes.ts';
import { policyOnRemoval } from '../erase/erasure-tags.ts';
import { checkpointedIn, checkpointTag } from '../names-and-tags.ts';
import type { VolumeId } from '../pool.ts';
import type { ClassVolumes } from './class-volumes.ts';
import { readExceptionsOf, StoreOverflowed } from './exception-store.ts';
import { snapshotExtents } from './extents.ts';
import { askLvm } from './group-memory.ts';
import type { RemoveVolume } from './layout.ts';
import type { LogicalVolume } from './report.ts';
import { deviceMapperName } from './thin-device.ts';
import type { VolumeGroup } from './volume-group.ts';

const chunkBytes = 64 * 1024;
/** A store for less than this part of its origin would soon overflow, and the copy would have to start again. */
const leastPart = 10n;

export interface ThickCheckpointsOptions {
  readonly volume: VolumeId;
  readonly volumes: ClassVolumes;
  readonly group: VolumeGroup;
  readonly deviceClass: () => ThickClass;
  readonly freeBytes: () => bigint;
  readonly remove: RemoveVolume;
}

/** Copy-on-write snapshots: the store of each lists the chunks that changed since it was taken. */
export class ThickCheckpoints implements Checkpoints {
  readonly #options: ThickCheckpointsOptions;

  constructor(options: ThickCheckpointsOptions) {
    this.#options = options;
  }

  async list(signal: AbortSignal): Promise<readonly Checkpoint[]> {
    const { group, volume } = this.#options;
    return group.changeSurely(signal, async () => {
      await group.ask(); // memory does not know that a store has overflowed
      const existing = this.#all().filter(({ origin }) => origin === volume);
      if (existing.some(({ attr }) => attr.charAt(4) !== 'a')) throw new StoreOverflowed();
      return existing.map(asCheckpoint);
    });
  }

  async create(id: CheckpointId, signal: AbortSignal): Promise<Checkpoint> {
    const { group, volume } = this.#options;
    return group.changeSurely(signal, async () => {
      const extents = this.#storeExtents();
      const words = [
        ...['lvcreate', '--yes', '--snapshot', '--name', id, '--permission', 'r'],
        ...['--chunksize', `${chunkBytes}b`, '--extents', String(extents), '--addtag', checkpointTag(volume)],
        group.fullName(volume),
      ];
      await group.execute(words, askLvm).catch((error: unknown) => {
        const isFull = error instanceof CommandFailed && /insufficient|not enough/i.test(error.stderr);
        throw isFull ? new NoCheckpoints('its volume group has no room for copy-on-write', { cause: error }) : error;
      });
      const created = group.memory.get(id);
      if (!created) throw new NoCheckpoints('LVM does not show the snapshot that it created');
      return asCheckpoint(created);
    });
  }

  async remove(id: CheckpointId, signal: AbortSignal): Promise<void> {
    await this.#options.remove(id, signal);
  }

  async removeAll(signal: AbortSignal): Promise<void> {
    for (const { name } of this.#all()) await this.remove(name, signal);
  }

  /** Everything since the first checkpoint is in its store, so chunks that changed after the second one are there too. */
  async changes({ id }: Checkpoint): Promise<BlockMap> {
    const { group } = this.#options;
    const changed = new BlockMap(this.#origin().sizeBytes);
    await readExceptionsOf(`/dev/mapper/${deviceMapperName(group.name, id)}-cow`, chunkBytes, changed);
    return changed;
  }

  async contents(): Promise<BlockMap> {
    return BlockMap.all(this.#origin().sizeBytes, 'data');
  }

  /** Includes the plain volume that an interrupted creation leaves. */
  #all(): LogicalVolume[] {
    return this.#options.volumes.all().filter(({ tags }) => checkpointedIn(tags) === this.#options.volume);
  }

  #origin(): LogicalVolume {
    return this.#options.volumes.mustHave(this.#options.volume);
  }

  /** As much as the origin if possible, so that it cannot overflow, and at most half of the free space: two may exist. */
  #storeExtents(): bigint {
    const { group, deviceClass, freeBytes } = this.#options;
    const { sizeBytes, origin, tags } = this.#origin();
    const erase = policyOnRemoval(tags, deviceClass().erase);
    if (origin !== undefined) throw new NoCheckpoints('LVM cannot create a snapshot of a copy-on-write snapshot');
    if (erase.kind !== 'none') {
      throw new NoCheckpoints(`its data is to be erased (${erase.kind}), and a snapshot would leave old data behind`);
    }
    const { extentBytes } = group.memory;
    const whole = snapshotExtents(sizeBytes, extentBytes);
    const room = freeBytes() / extentBytes / 2n;
    if (room >= whole) return whole;
    if (room * leastPart >= whole) return room;
    throw new NoCheckpoints('its volume group has too little free space for copy-on-write');
  }
}

function asCheckpoint({ name, path }: LogicalVolume): Checkpoint {
  return { id: name, devicePath: path };
}

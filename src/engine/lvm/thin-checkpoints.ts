import type { KeyedLock } from '../../base/keyed-lock.ts';
import type { Log } from '../../base/log.ts';
import { BlockMap } from '../changes/block-map.ts';
import { type Checkpoint, type Checkpoints, NoCheckpoints } from '../changes/checkpoint-tracking.ts';
import type { CheckpointId } from '../changes/position.ts';
import { SnapshotUnsupported, ThinPoolFilling } from '../errors.ts';
import { checkpointedIn, checkpointTag, readsMetadataTag } from '../names-and-tags.ts';
import type { VolumeId } from '../pool.ts';
import type { ClassVolumes } from './class-volumes.ts';
import type { RemoveVolume } from './layout.ts';
import { type LogicalVolume, parseThinIds, thinIdArguments } from './report.ts';
import { ThinMetadata } from './thin-metadata.ts';
import type { VolumeGroup } from './volume-group.ts';

export interface ThinCheckpointsOptions {
  readonly volume: VolumeId;
  readonly volumes: ClassVolumes;
  readonly group: VolumeGroup;
  readonly pool: string;
  /** Within `change`: fails if the class allows no snapshots, or the pool is about to run full. */
  readonly mustHaveRoom: () => Promise<void>;
  /** Within `change`. */
  readonly lvcreate: (words: readonly string[]) => Promise<void>;
  readonly remove: RemoveVolume;
  /** One at a time reads the metadata of a pool. */
  readonly lock: KeyedLock;
  readonly log: Log;
}

/** Thin snapshots: the pool knows which blocks of two of them differ. */
export class ThinCheckpoints implements Checkpoints {
  readonly #options: ThinCheckpointsOptions;
  readonly #metadata: ThinMetadata;
  #thinIds: ReadonlyMap<string, number> = new Map();

  constructor(options: ThinCheckpointsOptions) {
    this.#options = options;
    this.#metadata = new ThinMetadata(options.group.lvm, options.group.name, options.pool);
  }

  async list(signal: AbortSignal): Promise<readonly Checkpoint[]> {
    const { group } = this.#options;
    return group.changeSurely(signal, async () =>
      this.#all()
        .filter(({ active }) => active)
        .map(asCheckpoint),
    );
  }

  async create(id: CheckpointId, signal: AbortSignal): Promise<Checkpoint> {
    const { group, volume, volumes, mustHaveRoom, lvcreate } = this.#options;
    await this.#metadata.mustBeReadable();
    return group.changeSurely(signal, async () => {
      this.#mustReadAsZerosWhereUnmapped();
      await mustHaveRoom().catch((error: unknown) => {
        const isRefused = error instanceof SnapshotUnsupported || error instanceof ThinPoolFilling;
        throw isRefused ? new NoCheckpoints(error.message, { cause: error }) : error;
      });
      await lvcreate([
        ...['lvcreate', '--yes', '--snapshot', '--name', id, '--permission', 'r', '--setactivationskip', 'n'],
        ...['--addtag', checkpointTag(volume), group.fullName(volumes.mustHaveWhole(volume).name)],
      ]);
      const created = group.memory.get(id);
      if (!created?.active) throw new NoCheckpoints('LVM did not activate the snapshot that it created');
      return asCheckpoint(created);
    });
  }

  async remove(id: CheckpointId, signal: AbortSignal): Promise<void> {
    await this.#options.remove(id, signal);
  }

  async removeAll(signal: AbortSignal): Promise<void> {
    const { pool, lock } = this.#options;
    await lock.run(pool, signal, () => this.#releaseWhatIsOurs(signal));
    for (const { name } of this.#all()) await this.remove(name, signal);
  }

  async changes(from: Checkpoint, to: Checkpoint | undefined, signal: AbortSignal): Promise<BlockMap> {
    const changed = new BlockMap(this.#volume().sizeBytes);
    const before = await this.#thinIdOf(from.id, signal);
    const after = await this.#thinIdOf(to?.id ?? this.#options.volume, signal);
    await this.#readMetadata(signal, () => this.#metadata.readDifferences(before, after, changed, signal));
    return changed;
  }

  async contents(of: Checkpoint | undefined, signal: AbortSignal): Promise<BlockMap> {
    const contents = BlockMap.all(this.#volume().sizeBytes, 'zero');
    await this.#metadata.mustBeReadable();
    this.#mustReadAsZerosWhereUnmapped();
    const thinId = await this.#thinIdOf(of?.id ?? this.#options.volume, signal);
    await this.#readMetadata(signal, () => this.#metadata.readMappings(thinId, contents, signal));
    return contents;
  }

  #all(): LogicalVolume[] {
    return this.#options.volumes.all().filter(({ tags }) => checkpointedIn(tags) === this.#options.volume);
  }

  #volume(): LogicalVolume {
    return this.#options.volumes.mustHave(this.#options.volume);
  }

  /** A tag on the volume tells an agent after a crash that the reservation is ours. */
  async #readMetadata(signal: AbortSignal, read: () => Promise<void>): Promise<void> {
    const { pool, lock, volumes, volume } = this.#options;
    await lock.run(pool, signal, async () => {
      await this.#releaseWhatIsOurs(signal);
      if (await this.#metadata.isReserved()) throw new MetadataTaken();
      await this.#setNote(volumes.mustHave(volume), true);
      if (!(await this.#metadata.reserve())) {
        await this.#setNote(volumes.mustHave(volume), false);
        throw new MetadataTaken();
      }
      try {
        await read();
      } finally {
        await this.#releaseWhatIsOurs(neverAborted);
      }
    });
  }

  /** Also what an earlier process left. A reservation without our note belongs to somebody else. */
  async #releaseWhatIsOurs(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const noted = this.#options.volumes.all().filter(({ tags }) => tags.includes(readsMetadataTag));
    if (noted.length === 0) return;
    if (await this.#metadata.isReserved()) await this.#metadata.release();
    for (const volume of noted) await this.#setNote(volume, false);
  }

  async #setNote({ name }: LogicalVolume, isSet: boolean): Promise<void> {
    const { group } = this.#options;
    await group.changeSurely(neverAborted, async () => {
      const volume = group.memory.get(name);
      const tags = volume?.tags.filter((tag) => tag !== readsMetadataTag) ?? [];
      if (volume) await group.setTags(volume, isSet ? [...tags, readsMetadataTag] : tags);
    });
  }

  /** A volume keeps its number, so LVM is queried once: in the last round every command counts. */
  async #thinIdOf(name: string, signal: AbortSignal): Promise<number> {
    const { group } = this.#options;
    if (!this.#thinIds.has(name)) {
      this.#thinIds = await group.change(signal, async () =>
        parseThinIds(await group.lvm.execute(thinIdArguments(group.name))),
      );
    }
    const thinId = this.#thinIds.get(name);
    if (thinId === undefined) throw new NoCheckpoints(`LVM shows no thin volume ${name}`);
    return thinId;
  }

  /** A thin volume can have an external origin, which shows where it has no blocks itself. */
  #mustReadAsZerosWhereUnmapped(): void {
    const { group, pool } = this.#options;
    for (let at: LogicalVolume | undefined = this.#volume(); at?.origin !== undefined; ) {
      at = group.memory.get(at.origin);
      if (at?.pool !== pool) throw new NoCheckpoints('it has an external origin');
    }
  }
}

class MetadataTaken extends NoCheckpoints {
  constructor() {
    super('another program has reserved the metadata snapshot of its thin pool; release it with dmsetup');
  }
}

/** A reservation must be released even if the caller leaves; the timeout of each command bounds it. */
const neverAborted = new AbortController().signal;

function asCheckpoint({ name, path }: LogicalVolume): Checkpoint {
  return { id: name, devicePath: path };
}

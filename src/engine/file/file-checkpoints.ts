import { CommandNotFound, type Run } from '../../base/exec.ts';
import { BlockMap } from '../changes/block-map.ts';
import { type Checkpoint, type Checkpoints, NoCheckpoints } from '../changes/checkpoint-tracking.ts';
import type { CheckpointId } from '../changes/position.ts';
import type { ErasePolicy } from '../config/device-classes.ts';
import { PoolFull } from '../errors.ts';
import type { VolumeId } from '../pool.ts';
import type { FileVolume } from './attached-volumes.ts';
import type { DirectoryChanges } from './directory-changes.ts';
import type { FileCopies } from './file-copies.ts';
import { FileExtents } from './file-extents.ts';
import type { LoopDevices } from './loop-devices.ts';
import { BlocksNotShared } from './reflink.ts';
import type { CheckpointFile, VolumeFiles } from './volume-files.ts';

export interface FileCheckpointsOptions {
  readonly volume: () => FileVolume;
  readonly files: VolumeFiles;
  readonly loops: LoopDevices;
  readonly changes: DirectoryChanges;
  readonly copies: FileCopies;
  readonly mustFit: (sizeBytes: bigint) => Promise<void>;
  readonly erase: () => ErasePolicy;
  readonly run: Run;
}

/** How often addresses may change while they are read. */
const attempts = 3;

/** Copies of a volume's file that share its blocks: a block that has another address now was written since. */
export class FileCheckpoints implements Checkpoints {
  readonly #id: VolumeId;
  readonly #options: FileCheckpointsOptions;

  constructor(id: VolumeId, options: FileCheckpointsOptions) {
    this.#id = id;
    this.#options = options;
  }

  async list(): Promise<readonly Checkpoint[]> {
    return (await this.#all()).map(asCheckpoint);
  }

  async create(id: CheckpointId, signal: AbortSignal): Promise<Checkpoint> {
    const { volume, files, changes, copies, mustFit, erase } = this.#options;
    const { kind } = erase();
    if (kind !== 'none') {
      throw new NoCheckpoints(`its data is to be erased (${kind}), and a copy would leave old data behind`);
    }
    return changes.run(signal, async () => {
      const original = volume();
      try {
        await mustFit(original.sizeBytes); // all of it may be written while the copy exists
        return asCheckpoint(await files.createCheckpoint(original.id, id, (draft) => copies.reflink(original, draft)));
      } catch (error) {
        const isRefused = error instanceof PoolFull || error instanceof BlocksNotShared;
        throw isRefused ? new NoCheckpoints(error.message, { cause: error }) : error;
      }
    });
  }

  async remove(id: CheckpointId, signal: AbortSignal): Promise<void> {
    const { files, changes } = this.#options;
    const found = (await this.#all()).find((checkpoint) => checkpoint.id === id);
    if (found) await changes.run(signal, () => files.removeCheckpoint(found));
  }

  async removeAll(signal: AbortSignal): Promise<void> {
    for (const { id } of await this.#all()) await this.remove(id, signal);
  }

  async changes(from: Checkpoint, to: Checkpoint | undefined, signal: AbortSignal): Promise<BlockMap> {
    const later = to?.devicePath ?? (await this.#flushedImage());
    for (let attempt = 1; attempt <= attempts; attempt++) {
      const before = await this.#extentsOf(from.devicePath, signal);
      const after = await this.#extentsOf(later, signal);
      if (!before.equals(await this.#extentsOf(from.devicePath, signal))) continue;
      const changed = new BlockMap(this.#options.volume().sizeBytes);
      before.markDifferences(after, changed);
      return changed;
    }
    throw new NoCheckpoints('the filesystem of its device class keeps relocating its data');
  }

  async contents(of: Checkpoint | undefined, signal: AbortSignal): Promise<BlockMap> {
    const contents = BlockMap.all(this.#options.volume().sizeBytes, 'zero');
    const extents = await this.#extentsOf(of?.devicePath ?? (await this.#flushedImage()), signal);
    extents.markData(contents);
    return contents;
  }

  async #all(): Promise<readonly CheckpointFile[]> {
    return (await this.#options.files.listCheckpoints()).filter(({ volume }) => volume === this.#id);
  }

  async #flushedImage(): Promise<string> {
    const { volume, files, loops } = this.#options;
    await loops.flush(volume().devicePath);
    return files.imagePath(this.#id);
  }

  async #extentsOf(path: string, signal: AbortSignal): Promise<FileExtents> {
    return FileExtents.of(path, this.#options.run, signal).catch((error: unknown) => {
      throw error instanceof CommandNotFound ? new NoCheckpoints(error.message, { cause: error }) : error;
    });
  }
}

function asCheckpoint({ id, path }: CheckpointFile): Checkpoint {
  return { id, devicePath: path };
}

import { chmod, open, readdir, readFile, rename, rm, stat, statfs, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { replaceFile, syncDirectory } from '../../base/durable.ts';
import { MoorageError, messageOf } from '../../base/errors.ts';
import type { Run } from '../../base/exec.ts';
import type { CheckpointId } from '../changes/position.ts';
import type { Capacity, VolumeId } from '../pool.ts';

/** A volume's metadata. */
export interface Label {
  readonly tags: readonly string[];
  readonly readOnly: boolean;
  /** What it was copied from. */
  readonly origin?: VolumeId | undefined;
  /** Copies of one volume, and copies of those, have the same family: they may share blocks. */
  readonly family: VolumeId;
}

export class LabelUnreadable extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: VolumeId, path: string, cause: unknown) {
    super(
      `cannot serve volume ${id}, as its label ${path} cannot be read (${messageOf(cause)}); ` +
        'check its disk, and restore the label from a backup; the data of the volume is in the image beside it',
      { cause },
    );
  }
}

const imageSuffix = '.img';
const labelSuffix = '.json';
const draftSuffix = '.img.new';
const frozenSuffix = '.img.frozen';
const checkpoint = /^(.+)\.img\.(checkpoint-[0-9a-f]+)$/;
/** Our own names only: other files in the directory must not be removed. */
const unfinished = /\.(img|json|img\.checkpoint-[0-9a-f]+)\.new$/;
const ours = /\.(img|json)(\.|$)/;
const bytesPerBlock = 512n; // as stat counts, on any filesystem
const timeoutMs = 300_000; // some filesystems write all of a preallocated file

const labelSchema = v.object({
  tags: v.array(v.string()),
  readOnly: v.optional(v.boolean(), false),
  origin: v.optional(v.string()),
  family: v.optional(v.string()),
});

export interface Room {
  readonly sizeBytes: bigint;
  readonly takenBytes: bigint;
}

/** The file of a checkpoint, a copy of the volume's image at one time. */
export interface CheckpointFile {
  readonly volume: VolumeId;
  readonly id: CheckpointId;
  readonly path: string;
}

/** The file that holds the data of a volume. */
export function imageName(id: VolumeId): string {
  return `${id}${imageSuffix}`;
}

/**
 * The directory of a file pool. A volume `v` is `v.img`, which holds its data, and `v.json`, which is its label.
 * It exists exactly as long as `v.img` does: creation renames the image last, removal renames it first.
 */
export class VolumeFiles {
  readonly directory: string;
  readonly #run: Run;

  constructor(directory: string, run: Run) {
    this.directory = directory;
    this.#run = run;
  }

  imagePath(id: VolumeId): string {
    return join(this.directory, imageName(id));
  }

  /** Earlier versions let every user of the node read the images. */
  async restrictAccess(): Promise<void> {
    await restrict(this.directory, 0o700);
    for (const entry of await readdir(this.directory, { withFileTypes: true })) {
      if (entry.isFile() && ours.test(entry.name)) await restrict(join(this.directory, entry.name), 0o600);
    }
  }

  async list(): Promise<VolumeId[]> {
    const names = await readdir(this.directory);
    return names.filter((name) => name.endsWith(imageSuffix)).map((name) => name.slice(0, -imageSuffix.length));
  }

  async has(id: VolumeId): Promise<boolean> {
    return (await this.list()).includes(id);
  }

  /** Allocates without writing; what an earlier file left on the disk reads as zeros. */
  async create(id: VolumeId, sizeBytes: bigint, label: Label, signal: AbortSignal): Promise<void> {
    await this.#give(id, label, (draft) => this.#allocate(draft, 0n, sizeBytes, signal));
  }

  /** Allocates a file to be filled. `name` turns it into the volume, `discard` removes it. */
  async draft(id: VolumeId, sizeBytes: bigint, signal: AbortSignal): Promise<string> {
    const draft = this.#draftPath(id);
    try {
      await createEmpty(draft);
      await this.#allocate(draft, 0n, sizeBytes, signal);
      return draft;
    } catch (error) {
      await this.discard(id);
      throw error;
    }
  }

  /** Turns a complete draft into the volume. */
  async name(id: VolumeId, label: Label): Promise<void> {
    await this.writeLabel(id, label);
    await rename(this.#draftPath(id), this.imagePath(id));
    await syncDirectory(this.directory);
  }

  async discard(id: VolumeId): Promise<void> {
    await rm(this.#draftPath(id), { force: true });
  }

  /** `copy` fills the empty file at the given path, which then grows to the requested size. */
  async createCopy(
    id: VolumeId,
    sizeBytes: bigint,
    label: Label,
    copy: (draft: string) => Promise<void>,
    signal: AbortSignal,
  ): Promise<void> {
    await this.#give(id, label, async (draft) => {
      await copy(draft);
      await this.#allocate(draft, (await stat(draft, { bigint: true })).size, sizeBytes, signal);
    });
  }

  async grow(id: VolumeId, fromBytes: bigint, toBytes: bigint, signal: AbortSignal): Promise<void> {
    await this.#allocate(this.imagePath(id), fromBytes, toBytes, signal);
  }

  async listCheckpoints(): Promise<readonly CheckpointFile[]> {
    return (await readdir(this.directory)).flatMap((name) => {
      const [, volume, id] = checkpoint.exec(name) ?? [];
      return volume !== undefined && id !== undefined ? [{ volume, id, path: join(this.directory, name) }] : [];
    });
  }

  /** `copy` fills the empty file at the given path. */
  async createCheckpoint(
    volume: VolumeId,
    id: CheckpointId,
    copy: (draft: string) => Promise<void>,
  ): Promise<CheckpointFile> {
    const path = `${this.imagePath(volume)}.${id}`;
    const draft = `${path}.new`;
    try {
      await createEmpty(draft);
      await copy(draft);
      await rename(draft, path);
    } catch (error) {
      await rm(draft, { force: true });
      throw error;
    }
    await syncDirectory(this.directory);
    return { volume, id, path };
  }

  async removeCheckpoint({ path }: CheckpointFile): Promise<void> {
    await truncate(path);
    await rm(path);
    await syncDirectory(this.directory);
  }

  /** Truncates first: filesystems may free the blocks of a removed file late, those of a truncated file at once. */
  async remove(id: VolumeId): Promise<void> {
    if (await this.has(id)) {
      const nameless = `${this.imagePath(id)}.new`;
      await rename(this.imagePath(id), nameless);
      await syncDirectory(this.directory);
      await truncate(nameless);
      await rm(nameless);
    }
    await rm(this.#labelPath(id), { force: true });
  }

  /** Removes what a crash left: images that were never named, and labels without an image. */
  async removeUnfinished(): Promise<void> {
    const names = await readdir(this.directory);
    const images = new Set(await this.list());
    for (const name of names) {
      const id = name.endsWith(labelSuffix) ? name.slice(0, -labelSuffix.length) : undefined;
      const isLeft = unfinished.test(name) || (id !== undefined && !images.has(id) && (await this.#isLabel(name)));
      if (isLeft) await rm(join(this.directory, name), { force: true });
    }
  }

  async listDrafts(): Promise<VolumeId[]> {
    const names = await readdir(this.directory);
    return names.filter((name) => name.endsWith(draftSuffix)).map((name) => name.slice(0, -draftSuffix.length));
  }

  /** Exists while the filesystem on the volume may be frozen for a copy. */
  frozenNote(id: VolumeId): string {
    return join(this.directory, `${id}${frozenSuffix}`);
  }

  /** The volumes whose filesystems a crash may have left frozen. */
  async listFrozen(): Promise<VolumeId[]> {
    const names = await readdir(this.directory);
    return names.filter((name) => name.endsWith(frozenSuffix)).map((name) => name.slice(0, -frozenSuffix.length));
  }

  /** Its size, and how much of that is allocated on the disk. */
  async room(id: VolumeId): Promise<Room> {
    return this.roomOf(this.imagePath(id));
  }

  async roomOf(path: string): Promise<Room> {
    const { size, blocks } = await stat(path, { bigint: true });
    return { sizeBytes: size, takenBytes: blocks * bytesPerBlock };
  }

  async label(id: VolumeId): Promise<Label> {
    try {
      const label = v.parse(labelSchema, JSON.parse(await readFile(this.#labelPath(id), 'utf8')));
      return { ...label, family: label.family ?? id };
    } catch (error) {
      throw new LabelUnreadable(id, this.#labelPath(id), error);
    }
  }

  async writeLabel(id: VolumeId, label: Label): Promise<void> {
    await replaceFile(this.#labelPath(id), `${JSON.stringify(label)}\n`);
  }

  /** Of the whole filesystem, which may have other users. */
  async space(): Promise<Capacity> {
    const { bsize, blocks, bavail } = await statfs(this.directory, { bigint: true });
    return { sizeBytes: blocks * bsize, freeBytes: bavail * bsize };
  }

  /** Creates the image under another name, then the label, and renames the image last. */
  async #give(id: VolumeId, label: Label, create: (draft: string) => Promise<void>): Promise<void> {
    const draft = this.#draftPath(id);
    try {
      await createEmpty(draft);
      await create(draft);
      await this.name(id, label);
    } catch (error) {
      await this.discard(id);
      throw error;
    }
  }

  /** Allocates only the added range: holes in a copy have reserved space and need not be filled yet. */
  async #allocate(path: string, fromBytes: bigint, toBytes: bigint, signal: AbortSignal): Promise<void> {
    if (fromBytes < toBytes) {
      const range = ['--offset', String(fromBytes), '--length', String(toBytes - fromBytes)];
      await this.#run(['fallocate', ...range, path], { timeoutMs, signal });
    }
    await using file = await open(path, 'r');
    await file.sync();
  }

  #draftPath(id: VolumeId): string {
    return `${this.imagePath(id)}.new`;
  }

  #labelPath(id: VolumeId): string {
    return join(this.directory, `${id}${labelSuffix}`);
  }

  async #isLabel(name: string): Promise<boolean> {
    const text = await readFile(join(this.directory, name), 'utf8');
    return text.startsWith('{"tags":[');
  }
}

/** Replaces what a crash left. Only root may read a volume, whatever the umask is. */
async function createEmpty(path: string): Promise<void> {
  await rm(path, { force: true });
  await writeFile(path, '', { flag: 'wx', mode: 0o600 });
}

async function restrict(path: string, mode: number): Promise<void> {
  const isShared = ((await stat(path)).mode & 0o777 & ~mode) !== 0;
  if (isShared) await chmod(path, mode);
}

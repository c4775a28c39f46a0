import { stat } from 'node:fs/promises';
import type { Run } from '../../base/exec.ts';
import type { Log } from '../../base/log.ts';
import { mustNotBeBound } from '../device-use.ts';
import { CopyNeedsRest, VolumeInUse } from '../errors.ts';
import { luksDevicePath } from '../luks-device.ts';
import { contentTags, sourceTag } from '../names-and-tags.ts';
import type { NewSnapshot, VolumeId } from '../pool.ts';
import { type CopyOptions, copyDevice, VolumeCopies } from '../volume-copies.ts';
import type { AttachedVolumes, FileVolume } from './attached-volumes.ts';
import type { DirectoryChanges } from './directory-changes.ts';
import type { FileErasure } from './file-erasure.ts';
import type { LoopDevices } from './loop-devices.ts';
import { BlocksNotShared, reflink, thaw } from './reflink.ts';
import type { Label, VolumeFiles } from './volume-files.ts';

interface Collaborators {
  readonly files: VolumeFiles;
  readonly loops: LoopDevices;
  readonly volumes: Pick<AttachedVolumes, 'get'>;
  readonly changes: DirectoryChanges;
  readonly erasure: FileErasure;
  readonly run: Run;
  readonly log: Log;
}

/**
 * Copies volumes. Where the filesystem can share blocks between files, copies are instant and the source may be in use.
 * Elsewhere the source is read in full while nobody writes to it.
 */
export class FileCopies {
  readonly inProgress: VolumeCopies;
  readonly #collaborators: Collaborators;
  /** Until the filesystem refuses. */
  #sharesBlocks = true;

  constructor(collaborators: Collaborators) {
    this.#collaborators = collaborators;
    this.inProgress = new VolumeCopies(collaborators.log);
  }

  /** To be called within a change. On return the copy is complete, or running if the source has to be read. */
  async create(original: FileVolume, wanted: NewSnapshot, sizeBytes: bigint, signal: AbortSignal): Promise<void> {
    const label = {
      tags: [...new Set([...wanted.tags, ...contentTags(original.tags), sourceTag(original.id)])],
      readOnly: wanted.access === 'ro',
      origin: original.id,
    };
    await this.#collaborators.loops.flush(original.devicePath);
    if (this.#sharesBlocks) {
      try {
        return await this.#share(original, wanted.id, sizeBytes, { ...label, family: original.family }, signal);
      } catch (error) {
        if (!(error instanceof BlocksNotShared)) throw error;
        this.#sharesBlocks = false;
      }
    }
    await this.#begin(original, wanted.id, sizeBytes, { ...label, family: wanted.id }, signal);
  }

  /** Within a change: a copy of the volume's file that shares its blocks; fails with BlocksNotShared. */
  async reflink(original: FileVolume, target: string): Promise<void> {
    await this.#collaborators.loops.flush(original.devicePath);
    await this.#reflink(original, target);
  }

  /** Thaws what an earlier agent left frozen because it was killed during a copy. */
  async thawAll(): Promise<void> {
    const { files, volumes, run, log } = this.#collaborators;
    for (const id of await files.listFrozen()) {
      const volume = volumes.get(id);
      if (!volume && (await files.has(id))) continue; // cannot be attached now; keep the note until it can
      log.warn({ volume: id }, `thawing the filesystem on volume ${id}, which an interrupted copy left frozen`);
      await thaw(run, files.frozenNote(id), volume ? devicesOf(volume) : []);
    }
  }

  async #share(
    original: FileVolume,
    id: VolumeId,
    sizeBytes: bigint,
    label: Label,
    signal: AbortSignal,
  ): Promise<void> {
    const copy = (target: string) => this.#reflink(original, target);
    await this.#collaborators.files.createCopy(id, sizeBytes, label, copy, signal);
  }

  async #reflink(original: FileVolume, target: string): Promise<void> {
    const { files, run } = this.#collaborators;
    const [source, frozenNote] = [files.imagePath(original.id), files.frozenNote(original.id)];
    await reflink(run, { source, target, frozenNote, devices: devicesOf(original) });
  }

  /** Allocates the copy at once, which then reads as zeros, and fills it in the background. */
  async #begin(
    original: FileVolume,
    id: VolumeId,
    sizeBytes: bigint,
    label: Label,
    signal: AbortSignal,
  ): Promise<void> {
    const { files, changes, erasure } = this.#collaborators;
    await this.#mustBeUnused(original);
    const draft = await files.draft(id, sizeBytes, signal);
    this.inProgress.begin({ id, source: original.id, sizeBytes: original.sizeBytes }, async (options) => {
      try {
        await this.#read(original, draft, options);
        await changes.run(options.signal, () => files.name(id, label));
      } catch (error) {
        await erasure.discard(id, label);
        throw error;
      }
    });
  }

  /**
   * A write to the volume changes the mtime of its file, so a copy is consistent if that stays the same from before the
   * first read until after the last. Pods need not wait: if one writes, the copy is aborted.
   */
  async #read(original: FileVolume, draft: string, options: CopyOptions): Promise<void> {
    const { id, devicePath } = original;
    const changedAt = async () => (await stat(this.#collaborators.files.imagePath(id), { bigint: true })).mtimeNs;
    const before = await changedAt();
    await this.#mustBeUnused(original); // it may have waited for its turn since the last check
    const mustBeUnchanged = async () => {
      if ((await changedAt()) !== before) throw new CopyNeedsRest(id);
    };
    await copyDevice(devicePath, draft, {
      ...options,
      isZeroed: true,
      onCopied: async (copiedBytes) => {
        await mustBeUnchanged();
        await options.onCopied(copiedBytes);
      },
    });
    await this.#collaborators.loops.flush(devicePath); // cached writes must reach the file before its mtime is compared
    await mustBeUnchanged();
  }

  async #mustBeUnused({ id, devicePath }: FileVolume): Promise<void> {
    try {
      if (await this.#collaborators.loops.isHeld(devicePath)) throw new VolumeInUse(id, devicePath);
      await mustNotBeBound(id, devicePath);
    } catch (error) {
      throw error instanceof VolumeInUse ? new CopyNeedsRest(id, { cause: error }) : error;
    }
  }
}

function devicesOf({ id, devicePath }: FileVolume): readonly string[] {
  return [devicePath, luksDevicePath(id)];
}

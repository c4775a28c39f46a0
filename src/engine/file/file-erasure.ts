import type { ErasePolicy } from '../config/device-classes.ts';
import { mustBeErasable } from '../erase/erasable.ts';
import { emptiedTags, erasureIn, markedTags, policyOnRemoval, progressedTags } from '../erase/erasure-tags.ts';
import { ErasureCancelled, type Erasures } from '../erase/erasures.ts';
import { emptyingTag, isEncrypted } from '../names-and-tags.ts';
import type { VolumeId } from '../pool.ts';
import type { AttachedVolumes } from './attached-volumes.ts';
import { type DirectoryChanges, neverAborted } from './directory-changes.ts';
import { type Label, LabelUnreadable, type VolumeFiles } from './volume-files.ts';

interface Collaborators {
  readonly files: VolumeFiles;
  readonly volumes: Pick<AttachedVolumes, 'forget' | 'find' | 'list'>;
  readonly erasures: Erasures;
  readonly changes: DirectoryChanges;
  readonly policy: ErasePolicy;
}

/** Erases the data of volumes, to remove or to empty them. Their labels record the erasure. */
export class FileErasure {
  readonly #files: VolumeFiles;
  readonly #volumes: Collaborators['volumes'];
  readonly #erasures: Erasures;
  readonly #changes: DirectoryChanges;
  /** Of the class now; a marked volume keeps the one that it was removed with. */
  policy: ErasePolicy;

  constructor({ files, volumes, erasures, changes, policy }: Collaborators) {
    this.#files = files;
    this.#volumes = volumes;
    this.#erasures = erasures;
    this.#changes = changes;
    this.policy = policy;
  }

  /** Within a change: removes the files of the volume at once, or when they are clean; returns whether they are erased. */
  async remove(id: VolumeId): Promise<boolean> {
    const label = await this.#readableLabel(id);
    const policy = policyOnRemoval(label?.tags ?? [], this.policy);
    const promisesErasure = policy.kind !== 'none';
    if (!promisesErasure && !(label && this.#hasOwnHeader(id, label))) await this.#files.remove(id);
    else if (await this.#files.has(id)) {
      await this.#begin(id, policy);
      return promisesErasure;
    }
    return false;
  }

  /** Within a change: destroys the data of a detached volume, which is attached again when it is clean. */
  async empty(id: VolumeId, policy: ErasePolicy): Promise<void> {
    await this.#begin(id, policy, emptyingTag);
  }

  /** Undefined if there is none: such a volume can still be removed, as its class says. */
  async #readableLabel(id: VolumeId): Promise<Label | undefined> {
    if (!(await this.#files.has(id))) return undefined;
    try {
      return await this.#files.label(id);
    } catch (error) {
      if (error instanceof LabelUnreadable) return undefined;
      throw error;
    }
  }

  /** Called at the start: a crash may have left unfinished copies, whose data must be erased if the class erases. */
  async markDrafts(): Promise<void> {
    if (this.policy.kind === 'none') return;
    const tags = markedTags([], this.policy);
    for (const id of await this.#files.listDrafts()) {
      if (!(await this.#files.has(id))) await this.#files.name(id, { tags, readOnly: false, family: id });
    }
  }

  /** A draft that may hold data is erased like a volume. */
  async discard(id: VolumeId, label: Label): Promise<void> {
    if (this.policy.kind === 'none') return this.#files.discard(id);
    const marked = { ...label, tags: markedTags([], this.policy) };
    await this.#files.name(id, marked);
    await this.resume(id, marked);
  }

  /** Continues from the progress in the label. */
  async resume(id: VolumeId, label: Label): Promise<void> {
    const record = erasureIn(label.tags);
    if (!record) return;
    await this.#volumes.forget(id);
    this.#erasures.add({
      ...record,
      id,
      target: {
        kind: 'file',
        path: this.#files.imagePath(id),
        sizeBytes: (await this.#files.room(id)).sizeBytes,
        isKept: record.isKept,
        hasHeader: () => this.#hasOwnHeader(id, label),
        mustBeSame: async () => void (await this.#markedLabel(id)),
      },
      record: (cleanBytes) => this.#recordProgress(id, cleanBytes),
      release: () => this.#changes.run(neverAborted, () => (record.isKept ? this.#keep(id) : this.#files.remove(id))),
    });
  }

  /** Marks the volume durably: from here on it cannot be used. */
  async #begin(id: VolumeId, policy: ErasePolicy, mark?: typeof emptyingTag): Promise<void> {
    const label = await this.#files.label(id);
    if (erasureIn(label.tags)) return; // by an earlier call
    await mustBeErasable({ kind: 'file', path: this.#files.imagePath(id) }, policy);
    const marked = { ...label, tags: markedTags(label.tags, policy, mark) };
    await this.#files.writeLabel(id, marked);
    await this.resume(id, marked);
  }

  /** Can be retried when only the attachment failed. */
  async #keep(id: VolumeId): Promise<void> {
    const label = await this.#presentLabel(id);
    if (erasureIn(label.tags)) await this.#files.writeLabel(id, { ...label, tags: emptiedTags(label.tags) });
    await this.#volumes.find(id, neverAborted);
  }

  /** If copies share its blocks, overwriting them would only create new ones. */
  #hasOwnHeader(id: VolumeId, { tags, family }: Label): boolean {
    const isShared = this.#volumes.list().some((other) => other.family === family && other.id !== id);
    return isEncrypted({ tags }) && !isShared;
  }

  async #recordProgress(id: VolumeId, cleanBytes: bigint): Promise<void> {
    const label = await this.#markedLabel(id);
    await this.#files.writeLabel(id, { ...label, tags: progressedTags(label.tags, cleanBytes) });
  }

  /** No other volume gets the name while its erasure is listed. */
  async #markedLabel(id: VolumeId): Promise<Label> {
    const label = await this.#presentLabel(id);
    if (erasureIn(label.tags)) return label;
    throw new ErasureCancelled(id);
  }

  async #presentLabel(id: VolumeId): Promise<Label> {
    if (await this.#files.has(id)) return this.#files.label(id);
    throw new ErasureCancelled(id);
  }
}

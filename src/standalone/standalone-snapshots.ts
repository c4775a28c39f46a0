import type { Clock } from '../base/clock.ts';
import type { SnapshotStore, StoredSnapshot, WantedSnapshot } from '../csi/controller/volume-store.ts';
import { NameTakenBySnapshot, NoSuchSource } from './errors.ts';
import type { RecordedVolume, RecordedVolumes } from './recorded-volumes.ts';
import { idFor, tagsOf, type VolumeRecord } from './volume-record.ts';

interface Collaborators {
  readonly nodeName: string;
  readonly recorded: RecordedVolumes;
  readonly clock: Clock;
}

/** CSI's snapshots on the disks of this machine: read-only copies that record their source. */
export class StandaloneSnapshots implements SnapshotStore {
  readonly #nodeName: string;
  readonly #recorded: RecordedVolumes;
  readonly #clock: Clock;

  constructor({ nodeName, recorded, clock }: Collaborators) {
    this.#nodeName = nodeName;
    this.#recorded = recorded;
    this.#clock = clock;
  }

  async create({ name, sourceId }: WantedSnapshot, signal: AbortSignal): Promise<StoredSnapshot> {
    const id = idFor('snapshot', name);
    return this.#recorded.alone(id, signal, async () => {
      const existing = this.#recorded.find('snapshot', id) ?? (await this.#take(id, name, sourceId, signal));
      if (existing.record.source?.id !== sourceId) throw new NameTakenBySnapshot(name, existing.record.source?.id);
      return this.#stored(existing);
    });
  }

  async find(id: string): Promise<StoredSnapshot | undefined> {
    const found = this.#recorded.find('snapshot', id);
    return found && this.#stored(found);
  }

  async list(): Promise<readonly StoredSnapshot[]> {
    return this.#recorded.list('snapshot').map((found) => this.#stored(found));
  }

  async remove(id: string, signal: AbortSignal): Promise<void> {
    await this.#recorded.remove('snapshot', id, signal);
  }

  async #take(id: string, name: string, sourceId: string, signal: AbortSignal): Promise<RecordedVolume> {
    const source = this.#recorded.find('volume', sourceId);
    if (!source) throw new NoSuchSource({ kind: 'volume', id: sourceId });
    const { pool } = source;
    const record: VolumeRecord = {
      ...source.record,
      kind: 'snapshot',
      name,
      sizeBytes: source.volume.sizeBytes,
      source: { kind: 'volume', id: sourceId },
      createdAt: new Date(this.#clock.now()),
    };
    return { pool, record, volume: await pool.snapshot(sourceId, { id, tags: tagsOf(record), access: 'ro' }, signal) };
  }

  #stored({ volume, record }: RecordedVolume): StoredSnapshot {
    return {
      id: volume.id,
      name: record.name,
      sourceId: record.source?.id ?? '',
      nodeName: this.#nodeName,
      deviceClass: record.deviceClass,
      isEncrypted: record.isEncrypted,
      sizeBytes: volume.sizeBytes,
      createdAt: record.createdAt,
      isReady: true,
    };
  }
}

import { luks2 } from '../api/names.ts';
import type { Clock } from '../base/clock.ts';
import type { ContentSource, StoredVolume, VolumeStore, WantedVolume } from '../csi/controller/volume-store.ts';
import type { IoLimits } from '../csi/io-limits.ts';
import type { Pool } from '../engine/pool.ts';
import type { Pools } from '../engine/pools.ts';
import { IoLimitsNotOffered, NameTakenByVolume, NoSuchSource, NoSuchVolume, NotThisNode } from './errors.ts';
import type { RecordedVolume, RecordedVolumes } from './recorded-volumes.ts';
import { idFor, tagsOf, type VolumeRecord } from './volume-record.ts';

interface Collaborators {
  readonly nodeName: string;
  readonly pools: Pick<Pools, 'get'>;
  readonly recorded: RecordedVolumes;
  readonly clock: Clock;
}

/** CSI's volumes on the disks of this machine. The disks hold all state. */
export class StandaloneVolumes implements VolumeStore {
  readonly #nodeName: string;
  readonly #pools: Pick<Pools, 'get'>;
  readonly #recorded: RecordedVolumes;
  readonly #clock: Clock;

  constructor({ nodeName, pools, recorded, clock }: Collaborators) {
    this.#nodeName = nodeName;
    this.#pools = pools;
    this.#recorded = recorded;
    this.#clock = clock;
  }

  async create(wanted: WantedVolume, signal: AbortSignal): Promise<StoredVolume> {
    if (!wanted.nodeNames.includes(this.#nodeName)) throw new NotThisNode(this.#nodeName, wanted.nodeNames);
    if (wanted.limits) throw new IoLimitsNotOffered();
    const id = idFor('volume', wanted.name);
    return this.#recorded.alone(id, signal, async () => {
      const existing = this.#recorded.find('volume', id);
      if (!existing) return this.#stored(await this.#createVolume(id, wanted, signal));
      refuseIfDifferent(existing, wanted);
      return this.#stored(await this.#completed(existing, signal));
    });
  }

  async find(id: string): Promise<StoredVolume | undefined> {
    const found = this.#recorded.find('volume', id);
    return found && this.#stored(found);
  }

  async list(): Promise<readonly StoredVolume[]> {
    return this.#recorded.list('volume').map((found) => this.#stored(found));
  }

  async grow(id: string, sizeBytes: bigint, signal: AbortSignal): Promise<StoredVolume> {
    const found = this.#recorded.find('volume', id);
    if (!found) throw new NoSuchVolume(id);
    return this.#stored({ ...found, volume: await found.pool.grow(id, sizeBytes, signal) });
  }

  /** Limits are set on the cgroup of a pod, and there are no pods. */
  async modify(_id: string, _limits: IoLimits): Promise<void> {
    throw new IoLimitsNotOffered();
  }

  async remove(id: string, signal: AbortSignal): Promise<void> {
    await this.#recorded.remove('volume', id, signal);
  }

  async #createVolume(id: string, wanted: WantedVolume, signal: AbortSignal): Promise<RecordedVolume> {
    const { name, deviceClass, lvcreateOptionClass, isEncrypted, sizeBytes, source } = wanted;
    const record: VolumeRecord = {
      kind: 'volume',
      name,
      deviceClass,
      lvcreateOptionClass,
      isEncrypted,
      sizeBytes,
      ...(source && { source }),
      createdAt: new Date(this.#clock.now()),
    };
    const tags = tagsOf(record);
    if (source) {
      const pool = this.#poolOf(source); // a copy is in the pool of its source
      const volume = await pool.snapshot(source.id, { id, tags, sizeBytes, access: 'rw' }, signal);
      return { pool, record, volume };
    }
    const pool = this.#pools.get(deviceClass);
    const optionClass = lvcreateOptionClass ? { optionClass: lvcreateOptionClass } : {};
    return { pool, record, volume: await pool.create({ id, sizeBytes, tags, ...optionClass }, signal) };
  }

  /** The pool creates again what a crashed engine left unfinished. */
  async #completed({ pool, record, volume }: RecordedVolume, signal: AbortSignal): Promise<RecordedVolume> {
    if (record.source) return { pool, record, volume };
    const { id, sizeBytes } = volume; // it may have grown since its creation
    const optionClass = record.lvcreateOptionClass ? { optionClass: record.lvcreateOptionClass } : {};
    return { pool, record, volume: await pool.create({ id, sizeBytes, tags: tagsOf(record), ...optionClass }, signal) };
  }

  #poolOf(source: ContentSource): Pool {
    const found = this.#recorded.find(source.kind, source.id);
    if (!found) throw new NoSuchSource(source);
    return found.pool;
  }

  #stored({ volume, record }: RecordedVolume): StoredVolume {
    const { name, deviceClass, lvcreateOptionClass, isEncrypted, source } = record;
    const { id, sizeBytes } = volume;
    return {
      id,
      name,
      nodeName: this.#nodeName,
      deviceClass,
      lvcreateOptionClass,
      isEncrypted,
      sizeBytes,
      ...(source && { source }),
    };
  }
}

function refuseIfDifferent({ record, volume }: RecordedVolume, wanted: WantedVolume): void {
  const sourceOf = (source: ContentSource | undefined) => source && `${source.kind} ${source.id}`;
  const differences = [
    record.sizeBytes !== wanted.sizeBytes && `size ${record.sizeBytes}`,
    record.deviceClass !== wanted.deviceClass && `device class ${record.deviceClass || 'by default'}`,
    record.lvcreateOptionClass !== wanted.lvcreateOptionClass &&
      `lvcreate option class ${record.lvcreateOptionClass || 'none'}`,
    record.isEncrypted !== wanted.isEncrypted && `encryption ${record.isEncrypted ? luks2 : 'none'}`,
    sourceOf(record.source) !== sourceOf(wanted.source) && `source ${sourceOf(record.source) ?? 'none'}`,
  ].filter((difference) => difference !== false);
  if (differences.length > 0) throw new NameTakenByVolume(wanted.name, volume.id, differences);
}

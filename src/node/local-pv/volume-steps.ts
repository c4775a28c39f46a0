import { localPvOptions, localPvTag, localPvUidTag } from '../../api/local-pv.ts';
import type { Log } from '../../base/log.ts';
import { policyNamed } from '../../engine/erase/erase-policy.ts';
import { holdDevice } from '../../engine/held-device.ts';
import { adoptedTag, createdTag, encryptedTag, filesystemTag } from '../../engine/names-and-tags.ts';
import type { Pool, Volume } from '../../engine/pool.ts';
import type { ReadWholeDevice } from '../../filesystem/all-zero.ts';
import { DeviceUnreadable, decideFormat } from '../../filesystem/format.ts';
import { decideEncryption } from '../../filesystem/luks.ts';
import type { ProbeDevice } from '../../filesystem/probe.ts';
import type { StaticVolume } from '../../local-pv/static-volume.ts';
import { isOf } from './find-volume.ts';
import { type EndingStep, ExistingVolumeRefused, type Held, type ProvidingStep } from './next-step.ts';
import type { ShownVolumes } from './shown-volumes.ts';

interface Collaborators {
  readonly shown: Pick<ShownVolumes, 'show' | 'hide'>;
  readonly probe: ProbeDevice;
  readonly allZero: ReadWholeDevice;
  /** Holds a volume's device open while it is read. */
  readonly hold?: (volume: Volume) => Promise<AsyncDisposable>;
  readonly log: Log;
}

/** What is done to one static volume. Every step can be retried after a crash. */
export class VolumeSteps {
  readonly #shown: Collaborators['shown'];
  readonly #probe: ProbeDevice;
  readonly #allZero: ReadWholeDevice;
  readonly #hold: (volume: Volume) => Promise<AsyncDisposable>;
  readonly #log: Log;

  constructor({ shown, probe, allZero, hold = holdDevice, log }: Collaborators) {
    this.#shown = shown;
    this.#probe = probe;
    this.#allZero = allZero;
    this.#hold = hold;
    this.#log = log;
  }

  /**
   * Afterwards the volume has its size. `mustStillBeReleased` is called before data is destroyed, when no pod can start on
   * the volume any more. Can take hours.
   */
  async provide(
    wanted: StaticVolume,
    step: ProvidingStep,
    mustStillBeReleased: () => Promise<void>,
    signal: AbortSignal,
  ): Promise<Held> {
    const { name, sizeBytes } = wanted;
    const { pool, volume } = await this.#obtain(wanted, step, mustStillBeReleased, signal);
    return { pool, volume: volume.sizeBytes < sizeBytes ? await pool.grow(name, sizeBytes, signal) : volume };
  }

  /** Afterwards pods can use the volume. */
  async show(wanted: StaticVolume, held: Held, signal: AbortSignal): Promise<void> {
    await this.#shown.show(wanted, held, signal);
  }

  /** Afterwards nothing is mounted or shown for the PersistentVolume, and its volume is gone. Can take hours. */
  async end(wanted: StaticVolume, step: EndingStep, signal: AbortSignal): Promise<void> {
    switch (step.kind) {
      case 'confirm':
        return this.#shown.hide(wanted, step.volume, signal);
      case 'adopt and remove':
        return this.#remove(wanted, await this.#adopt(wanted, step, signal), signal);
      case 'remove':
        return this.#remove(wanted, step, signal);
    }
  }

  async #obtain(
    wanted: StaticVolume,
    step: ProvidingStep,
    mustStillBeReleased: () => Promise<void>,
    signal: AbortSignal,
  ): Promise<Held> {
    switch (step.kind) {
      case 'create':
        return this.#create(wanted, step.pool, step.unfinished, signal);
      case 'adopt':
        return this.#adopt(wanted, step, signal);
      case 'take if empty':
        return this.#takeIfEmpty(wanted, step, signal);
      case 'release':
        return this.#release(wanted, step, mustStillBeReleased, signal);
      case 'use':
        return step;
    }
  }
  /** What an interrupted creation left may be smaller than what is requested by now. */
  async #create(wanted: StaticVolume, pool: Pool, unfinished: Volume | undefined, signal: AbortSignal): Promise<Held> {
    const { name: id, uid, sizeBytes: requested } = wanted;
    const sizeBytes = unfinished && unfinished.sizeBytes < requested ? unfinished.sizeBytes : requested;
    const volume = await pool.create({ id, sizeBytes, tags: ownerTags(wanted) }, signal);
    if (!isOf(uid, volume)) throw new ExistingVolumeRefused(id, 'somebody else has just created it');
    this.#log.info({ volume: id, sizeBytes: String(volume.sizeBytes) }, 'static volume created');
    return { pool, volume };
  }

  /** Only a volume with the requested filesystem, or with LUKS if encryption is requested, becomes ours. */
  async #adopt(wanted: StaticVolume, { pool, volume }: Held, signal: AbortSignal): Promise<Held> {
    const { name, filesystem, cryptSecret } = wanted;
    // Its content decides, whoever created it.
    const judged = { ...volume, tags: [...volume.tags.filter((tag) => tag !== createdTag), adoptedTag] };
    const probe = await this.#probe(volume.devicePath, signal);
    if (cryptSecret === undefined) decideFormat(judged, probe, filesystem);
    else decideEncryption(judged, probe);
    const content = cryptSecret === undefined ? filesystemTag(filesystem.name) : encryptedTag;
    const adopted = await pool.addTags(name, [...ownerTags(wanted), content, adoptedTag], signal);
    this.#log.info({ volume: name }, 'static volume adopted with its data');
    return { pool, volume: adopted };
  }

  async #takeIfEmpty(wanted: StaticVolume, { pool, volume }: Held, signal: AbortSignal): Promise<Held> {
    const { name } = wanted;
    await using _ = await this.#hold(volume);
    const probe = await this.#probe(volume.devicePath, signal);
    if (probe.kind === 'found') throw new ExistingVolumeRefused(name, `it holds ${probe.filesystem}`, true);
    const zeros = await this.#allZero(volume.devicePath, signal);
    if (zeros.kind === 'unknown') throw new DeviceUnreadable(name, zeros.reason);
    if (zeros.kind === 'data') throw new ExistingVolumeRefused(name, 'it is not empty', true);
    const taken = await pool.addTags(name, ownerTags(wanted), signal);
    this.#log.info({ volume: name }, 'empty existing volume taken for a static volume');
    return { pool, volume: taken };
  }

  async #release(
    wanted: StaticVolume,
    { how, pool, volume }: Extract<ProvidingStep, { kind: 'release' }>,
    mustStillBeReleased: () => Promise<void>,
    signal: AbortSignal,
  ): Promise<Held> {
    const { name } = wanted;
    await this.#shown.hide(wanted, volume, signal);
    await mustStillBeReleased();
    const emptied = await pool.empty(name, policyNamed(how), signal);
    this.#log.info({ volume: name, how }, 'static volume emptied for the next claim');
    return { pool, volume: emptied };
  }

  async #remove(
    wanted: StaticVolume,
    { pool, volume }: { readonly pool: Pool; readonly volume?: Volume },
    signal: AbortSignal,
  ): Promise<void> {
    const { name, uid, onRemoval = 'default' } = wanted;
    await this.#shown.hide(wanted, volume, signal);
    if (volume) {
      const marked = await pool.addTags(name, [`${localPvOptions.onRemoval}=${onRemoval}`], signal);
      if (!isOf(uid, marked)) throw new ExistingVolumeRefused(name, 'it is another one by now');
    }
    const removal = await pool.remove(name, signal);
    this.#log.info({ volume: name, removal }, 'static volume removed');
  }
}

/** Name the PersistentVolume on the disk, so that the owner of the data is known without the cluster. */
function ownerTags({ name, uid }: StaticVolume): readonly string[] {
  return [`${localPvTag}=${name}`, `${localPvUidTag}=${uid}`];
}

import { setImmediate } from 'node:timers/promises';
import type { VolumeId } from '../../../engine/pool.ts';
import type { Copying, MovableVolumes, OfferedVolume, Pull, PulledRound } from '../copying.ts';

/** For tests: one end of moves, without any data. The n-th round has the n-th of these sizes. */
export class InMemoryCopying implements Copying, MovableVolumes {
  readonly endpoint = '10.0.0.1:7443';
  /** What was done, in order. */
  readonly steps: string[] = [];
  readonly offers = new Set<OfferedVolume>();
  /** Why `freeze` fails, as long as something has the volume open. */
  inUse: Error | undefined;
  /** Why `endCopy` fails, as long as the device class is not configured. */
  notServed: Error | undefined;
  roundBytes: readonly number[] = [100, 10];
  durationMs = 0;
  /** Called before each round ends. */
  beforeEnd: () => Promise<void> = async () => undefined;
  #keys = 0;
  #rounds = 0;

  async newKey() {
    this.#keys += 1;
    return { cert: `certificate-${this.#keys}`, key: `key-${this.#keys}` };
  }

  async offer(offered: OfferedVolume): Promise<AsyncDisposable> {
    this.steps.push(`offer ${offered.volumeId} to ${offered.peerCertificate}`);
    this.offers.add(offered);
    return {
      [Symbol.asyncDispose]: async () => {
        this.steps.push(`end offer to ${offered.peerCertificate}`);
        this.offers.delete(offered);
      },
    };
  }

  async pull(
    { kind, volumeId, endpoint, peerCertificate, onProgress }: Pull,
    signal: AbortSignal,
  ): Promise<PulledRound> {
    const sentBytes = this.roundBytes[this.#rounds] ?? 0;
    this.#rounds += 1;
    this.steps.push(`pull ${kind} into ${volumeId} from ${endpoint}, ${peerCertificate}`);
    onProgress({ doneBytes: sentBytes / 2, totalBytes: sentBytes });
    await this.beforeEnd();
    await setImmediate(undefined, { signal });
    return { sentBytes, sha256: `hash-${this.#rounds}`, durationMs: this.durationMs };
  }

  async fence(id: VolumeId, moveUid: string): Promise<void> {
    this.steps.push(`fence ${id} for ${moveUid}`);
  }

  async freeze(id: VolumeId): Promise<void> {
    if (this.inUse) throw this.inUse;
    this.steps.push(`freeze ${id}`);
  }

  async endCopy(id: VolumeId): Promise<void> {
    if (this.notServed) throw this.notServed;
    this.steps.push(`end copy of ${id}`);
  }

  async unfence(id: VolumeId, moveUid: string): Promise<void> {
    this.steps.push(`unfence ${id} for ${moveUid}`);
  }

  async open(id: VolumeId, moveUid: string): Promise<void> {
    this.steps.push(`open ${id} for ${moveUid}`);
  }
}

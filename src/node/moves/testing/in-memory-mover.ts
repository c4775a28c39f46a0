import { setImmediate } from 'node:timers/promises';
import type { VolumeId } from '../../../engine/pool.ts';
import type { MovableVolumes, Mover, Offer, Pull, PulledRound } from '../mover.ts';

/** For tests: the agents of two nodes, with volumes that have no data. The n-th round has the n-th of these sizes. */
export class InMemoryMover implements Mover, MovableVolumes {
  readonly endpoint = '10.0.0.1:7443';
  /** What was done, in order. */
  readonly steps: string[] = [];
  readonly offers = new Set<Offer>();
  /** Why `freeze` fails, as long as something has the volume open. */
  inUse: Error | undefined;
  roundBytes: readonly bigint[] = [100n, 10n];
  /** Called before each round ends. */
  beforeEnd: () => Promise<void> = async () => undefined;
  #keys = 0;
  #rounds = 0;

  async newKey() {
    this.#keys += 1;
    return { cert: `certificate-${this.#keys}`, key: `key-${this.#keys}` };
  }

  offer(offer: Offer): Disposable {
    this.steps.push(`offer ${offer.volumeId} to ${offer.peerCertificate}`);
    this.offers.add(offer);
    return {
      [Symbol.dispose]: () => {
        this.steps.push(`end offer to ${offer.peerCertificate}`);
        this.offers.delete(offer);
      },
    };
  }

  async pull(
    { round, volumeId, endpoint, peerCertificate, onProgress }: Pull,
    signal: AbortSignal,
  ): Promise<PulledRound> {
    const bytes = this.roundBytes[this.#rounds] ?? 0n;
    this.#rounds += 1;
    this.steps.push(`pull ${round} into ${volumeId} from ${endpoint}, ${peerCertificate}`);
    onProgress({ round: this.#rounds, copiedBytes: bytes / 2n, totalBytes: bytes });
    await this.beforeEnd();
    await setImmediate(undefined, { signal });
    return { round: this.#rounds, bytes, sha256: `hash-${this.#rounds}` };
  }

  async fence(id: VolumeId, moveUid: string): Promise<void> {
    this.steps.push(`fence ${id} for ${moveUid}`);
  }

  async freeze(id: VolumeId): Promise<readonly string[]> {
    if (this.inUse) throw this.inUse;
    this.steps.push(`freeze ${id}`);
    return ['moorage.dev/raw'];
  }

  async endCopy(id: VolumeId): Promise<void> {
    this.steps.push(`end copy of ${id}`);
  }

  async unfence(id: VolumeId, moveUid: string): Promise<void> {
    this.steps.push(`unfence ${id} for ${moveUid}`);
  }

  async open(id: VolumeId, moveUid: string, contentTags: readonly string[]): Promise<void> {
    this.steps.push(`open ${id} for ${moveUid} with ${contentTags.join()}`);
  }
}

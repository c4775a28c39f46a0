import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import type { ChangeTracking } from '../../engine/changes/change-tracking.ts';
import { movingKey, positionKey, receivingKey, tagValue } from '../../engine/names-and-tags.ts';
import type { VolumeId } from '../../engine/pool.ts';
import type { Pools } from '../../engine/pools.ts';
import { parseAddress } from '../../http/address.ts';
import type { Certificate } from '../../http/self-signed.ts';
import { mustHold } from '../../volumes/pool-holding.ts';
import type { Mover } from '../mover/mover.ts';
import type { Copying, MovableVolumes, OfferedVolume, Pull, PulledRound } from './copying.ts';

interface Collaborators {
  readonly pools: Pick<Pools, 'all' | 'unavailable'>;
  /** Unmounts a volume that no pod has. */
  readonly close: (id: VolumeId, signal: AbortSignal) => Promise<void>;
  /** At which other agents reach this one. */
  readonly host: string;
  readonly port: number;
  readonly clock: Clock;
  readonly log: Log;
}

/** The volumes of this node, and the copies of volumes between it and others. */
export class AgentCopying implements Copying, MovableVolumes {
  readonly endpoint: string;
  readonly #collaborators: Collaborators;
  readonly #pools: Collaborators['pools'];
  /** What each offered volume has told its target, so that a restarted target can go on. */
  readonly #trackings = new Map<VolumeId, ChangeTracking>();
  #mover: Promise<Mover> | undefined;

  constructor(collaborators: Collaborators) {
    const { host, port, pools } = collaborators;
    this.#collaborators = collaborators;
    this.#pools = pools;
    this.endpoint = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
  }

  async fence(id: VolumeId, moveUid: string, signal: AbortSignal): Promise<void> {
    const { pool, volume } = mustHold(this.#pools, id);
    if (tagValue(volume.tags, movingKey) !== moveUid) await pool.addTags(id, [`${movingKey}=${moveUid}`], signal);
  }

  async freeze(id: VolumeId, signal: AbortSignal): Promise<void> {
    const { pool, volume } = mustHold(this.#pools, id);
    if (volume.readOnly) return;
    await this.#collaborators.close(id, signal);
    await pool.setAccess(id, 'ro', signal);
  }

  async endCopy(id: VolumeId, signal: AbortSignal): Promise<void> {
    await this.#trackingOf(id).end(signal);
    this.#trackings.delete(id);
  }

  async unfence(id: VolumeId, moveUid: string, signal: AbortSignal): Promise<void> {
    const { pool, volume } = mustHold(this.#pools, id);
    if (tagValue(volume.tags, movingKey) !== moveUid) return;
    if (volume.readOnly) await pool.setAccess(id, 'rw', signal);
    await pool.removeTags(id, [movingKey], signal); // last: it says that this move made it read-only
  }

  async open(id: VolumeId, moveUid: string, signal: AbortSignal): Promise<void> {
    const { pool, volume } = mustHold(this.#pools, id);
    if (tagValue(volume.tags, receivingKey) === moveUid) await pool.removeTags(id, [receivingKey, positionKey], signal);
  }

  async newKey(): Promise<Certificate> {
    const { newMoveKey } = await import('../mover/move-key.ts');
    return newMoveKey(this.#collaborators.clock.now());
  }

  async offer({ moveUid, volumeId, own, peerCertificate }: OfferedVolume): Promise<AsyncDisposable> {
    const tracking = this.#trackingOf(volumeId);
    const tags = () => mustHold(this.#pools, volumeId).volume.tags;
    return (await this.#started()).offer(moveUid, { tracking, tags, own, peerCertificate });
  }

  async pull({ endpoint, bytesPerSecond, volumeId, ...rest }: Pull, signal: AbortSignal): Promise<PulledRound> {
    const { host = '', port } = parseAddress(endpoint);
    const { pool } = mustHold(this.#pools, volumeId);
    const limit = bytesPerSecond === undefined ? {} : { bytesPerSecond };
    return (await this.#started()).pull({ ...rest, ...limit, host, port, pool, volumeId }, signal);
  }

  async stop(): Promise<void> {
    await (await this.#mover)?.stop();
  }

  #trackingOf(id: VolumeId): ChangeTracking {
    const tracking = this.#trackings.get(id) ?? mustHold(this.#pools, id).pool.trackChanges(id);
    this.#trackings.set(id, tracking);
    return tracking;
  }

  /** Loaded with the first move. */
  async #started(): Promise<Mover> {
    this.#mover ??= import('../mover/mover.ts').then(({ Mover }) => new Mover(this.#collaborators));
    return this.#mover;
  }
}

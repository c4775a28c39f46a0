import type { ErrorCode } from '../../../src/base/errors.ts';
import type { Random } from '../../../src/base/testing/random.ts';
import type { VolumeId } from '../../../src/engine/pool.ts';
import type { Change } from './engine.ts';

export type PoolKind = 'thick' | 'thin' | 'file';

/** The expected state of an acknowledged volume. */
export interface Expected {
  readonly sizeBytes: bigint;
  readonly tags: readonly string[];
  /** Its first bytes. */
  readonly stamp: string;
  readonly readOnly: boolean;
  readonly origin?: VolumeId;
}

const mebibyte = 1024n ** 2n;
const mostVolumes = 20;
/** More than any of the pools has. */
const tooLargeBytes = 1024n ** 4n;

/**
 * What a pool holds if every promise is kept: exactly what was acknowledged, minus what somebody was allowed to remove.
 * It also chooses the next changes, so that most of them make sense.
 */
export class PoolModel {
  readonly name: string;
  readonly kind: PoolKind;
  readonly volumes = new Map<VolumeId, Expected>();
  /** Created by others and not yet checked: the engine has a moment to notice. */
  readonly unnoticed = new Set<VolumeId>();
  readonly #canSnapshot: boolean;
  #created = 0;

  constructor(name: string, kind: PoolKind, canSnapshot = true) {
    this.name = name;
    this.kind = kind;
    this.#canSnapshot = canSnapshot;
  }

  newId(prefix: string): VolumeId {
    return `${this.name}-${prefix}-${++this.#created}`; // two pools may share a volume group, and its names
  }

  /** The next request; undefined if it would need a volume and there is none. */
  nextChanges(random: Random): Change | undefined {
    const id = random.pick([...this.volumes.keys()].filter((id) => !this.unnoticed.has(id)));
    const dice = this.volumes.size < mostVolumes ? random.next() : 0.6 + random.next() * 0.4;
    if (dice < 0.35) return this.#creation(random);
    const volume = id && this.volumes.get(id);
    if (!volume) return undefined;
    if (dice < 0.5 && this.#canSnapshot) return this.#snapshotOf(id, volume, random);
    if (dice < 0.65) return { kind: 'tag', id, tags: [`tag-${random.below(1000)}`] };
    if (dice < 0.75) return { kind: 'grow', id, sizeBytes: volume.sizeBytes + BigInt(1 + random.below(8)) * mebibyte };
    return { kind: 'remove', id };
  }

  #creation(random: Random): Change {
    const sizeBytes = random.chance(0.03) ? tooLargeBytes : BigInt(1 + random.below(24)) * mebibyte;
    const tags = Array.from({ length: random.below(4) }, (_, index) => `made-${index}`);
    return { kind: 'create', wanted: { id: this.newId('volume'), sizeBytes, tags } };
  }

  #snapshotOf(source: VolumeId, { sizeBytes }: Expected, random: Random): Change {
    const access = random.chance(0.5) ? 'ro' : 'rw';
    const larger = this.kind !== 'thick' && random.chance(0.3); // copy-on-write has its origin's size
    return {
      kind: 'snapshot',
      source,
      wanted: {
        id: this.newId('snapshot'),
        tags: ['snapshot'],
        access,
        ...(larger && { sizeBytes: sizeBytes + 4n * mebibyte }),
      },
    };
  }

  /** Volumes that nothing else may change meanwhile. */
  involved(change: Change): VolumeId[] {
    const id = subject(change);
    const origin = this.volumes.get(id)?.origin;
    return [id, ...(origin ? [origin] : []), ...(change.kind === 'snapshot' ? [change.source] : [])];
  }

  /** Error codes with which a change may be rejected without a bug. */
  mayRefuse(change: Change): readonly ErrorCode[] {
    if (change.kind === 'create') return change.wanted.sizeBytes === tooLargeBytes ? ['ResourceExhausted'] : [];
    if (this.kind !== 'thick') return [];
    // LVM supports less with copy-on-write than with thin volumes, and what it rejects must not lose data.
    const id = change.kind === 'snapshot' ? change.source : subject(change);
    const isSnapshot = this.volumes.get(id)?.origin !== undefined;
    const hasSnapshots = [...this.volumes.values()].some(({ origin }) => origin === id);
    if (change.kind === 'snapshot' && isSnapshot) return ['FailedPrecondition', 'Unimplemented'];
    if (change.kind === 'grow' && (isSnapshot || hasSnapshots)) return ['FailedPrecondition', 'Unimplemented'];
    if (change.kind === 'remove' && hasSnapshots) return ['FailedPrecondition'];
    return [];
  }

  /** The change was acknowledged: from now on it must hold. */
  acknowledge(change: Change): void {
    const id = subject(change);
    const before = this.volumes.get(id);
    switch (change.kind) {
      case 'create': {
        const { sizeBytes, tags } = change.wanted;
        this.volumes.set(id, { sizeBytes, tags, stamp: '', readOnly: false });
        return;
      }
      case 'snapshot': {
        const source = this.mustHave(change.source);
        const { tags, access, sizeBytes = source.sizeBytes } = change.wanted;
        const readOnly = access === 'ro';
        this.volumes.set(id, { sizeBytes, tags, stamp: source.stamp, readOnly, origin: change.source });
        return;
      }
      case 'grow':
        if (before) this.volumes.set(id, { ...before, sizeBytes: change.sizeBytes });
        return;
      case 'tag':
        if (before) this.volumes.set(id, { ...before, tags: [...new Set([...before.tags, ...change.tags])] });
        return;
      case 'remove':
        this.volumes.delete(id);
        return;
    }
  }

  stamped(id: VolumeId, stamp: string): void {
    this.volumes.set(id, { ...this.mustHave(id), stamp });
  }

  mustHave(id: VolumeId): Expected {
    const volume = this.volumes.get(id);
    if (!volume) throw new Error(`the model knows no volume ${id} in ${this.name}`);
    return volume;
  }
}

/** The changed volume. */
export function subject(change: Change): VolumeId {
  return 'wanted' in change ? change.wanted.id : change.id;
}

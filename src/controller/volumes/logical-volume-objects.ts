import {
  deleting,
  type Failure,
  failureOf,
  isSnapshot,
  type LogicalVolume,
  logicalVolumes,
  recordedSourceOf,
  removalFailureOf,
  type StoredLogicalVolume,
  volumeIdOf,
} from '../../api/logical-volume.ts';
import type { MoorageError } from '../../base/errors.ts';
import type { ContentSource } from '../../csi/controller/volume-store.ts';
import { isAlreadyExists, isConflict, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Informer } from '../../kube/informer.ts';
import { numberOf } from '../../rpc/status.ts';
import { AmbiguousVolume, ClassNotThere, NodeRefused, VolumeNotMade, VolumeNotRemoved, WatchBehind } from './errors.ts';

export interface LogicalVolumeCollaborators {
  readonly client: Pick<KubeClient, 'create' | 'get' | 'list' | 'patch' | 'delete'>;
  /** The LogicalVolumes of all nodes. */
  readonly watched: Pick<Informer<LogicalVolume>, 'get' | 'list' | 'until' | 'whenSynced'>;
}

export type Wish = LogicalVolume & { readonly metadata: { readonly name: string } };

/**
 * The conversation with the nodes: an object asks, its node answers in the object, and the watch tells. The object is the
 * memory: a call that is repeated, also to another replica or after a crash, finds what the first one has asked for.
 */
export class LogicalVolumeObjects {
  readonly #client: LogicalVolumeCollaborators['client'];
  readonly #watched: LogicalVolumeCollaborators['watched'];

  constructor({ client, watched }: LogicalVolumeCollaborators) {
    this.#client = client;
    this.#watched = watched;
  }

  /** Ends when the node has made it. `refuseIfDifferent` throws if an object of that name is not what is wished for. */
  async make(
    wish: Wish,
    refuseIfDifferent: (existing: StoredLogicalVolume) => void,
    signal: AbortSignal,
  ): Promise<StoredLogicalVolume> {
    const asked = await this.#ask(wish, refuseIfDifferent, signal);
    const made = await this.#untilAnswered(asked, signal);
    const failure = failureOf(made);
    if (!failure) return made;
    // Left in place it would fail every repetition of the call, although the node may have room by then.
    await this.#delete(made, signal);
    throw creationRefused(made, failure);
  }

  /**
   * A volume that our cache does not hold may be younger than the cache; only the API server itself can say no. An ID that
   * two objects have is an error: to read, grow or remove the wrong one would be somebody's data.
   */
  async find(id: string, signal: AbortSignal): Promise<StoredLogicalVolume | undefined> {
    if (id === '') return undefined; // it would find all that are not made yet
    const cached = onlyOne(
      id,
      this.#watched.list().filter((volume) => volumeIdOf(volume) === id),
    );
    if (cached) return cached;
    const fieldSelector = `status.volumeID=${id.replaceAll(/[\\,=]/g, '\\$&')}`;
    const { items } = await this.#client.list(logicalVolumes, { fieldSelector, signal });
    const found = onlyOne(id, items);
    if (found) await this.#untilWatched(found, signal);
    return found;
  }

  /** Those that the nodes have made. */
  async list(signal: AbortSignal): Promise<readonly StoredLogicalVolume[]> {
    await this.#watched.whenSynced(signal);
    return this.#watched.list().filter(({ status }) => status?.volumeID);
  }

  /** Undefined for what is no copy, and for a copy of TopoLVM's whose source is gone. */
  sourceOf(volume: StoredLogicalVolume): ContentSource | undefined {
    const recorded = recordedSourceOf(volume);
    if (recorded || !volume.spec.source) return recorded;
    const source = this.#watched.get(objectName(volume.spec.source));
    return source && { kind: isSnapshot(source) ? 'snapshot' : 'volume', id: volumeIdOf(source) };
  }

  /** The object as it is then, undefined if it is gone. */
  async change(
    { metadata: { name, uid } }: StoredLogicalVolume,
    change: { readonly annotations: Readonly<Record<string, string | null>>; readonly size?: string },
    signal: AbortSignal,
  ): Promise<StoredLogicalVolume | undefined> {
    const { annotations, size } = change;
    const body = { metadata: { uid, annotations }, ...(size !== undefined && { spec: { size } }) };
    try {
      return await this.#client.patch(logicalVolumes, name, { type: 'merge', body }, { signal });
    } catch (error) {
      if (isNotFound(error) || isConflict(error)) return undefined; // a conflict: another object has the name by now
      throw error;
    }
  }

  /** Ends when nothing is left of it, or when the node says that it cannot be removed. */
  async remove(volume: StoredLogicalVolume, signal: AbortSignal): Promise<void> {
    await this.#delete(volume, signal);
    await this.#untilGone(volume, signal);
  }

  /** Waits until this very object, undefined once it is gone, is as wanted. */
  async until(
    { metadata: { name, uid } }: StoredLogicalVolume,
    predicate: (current: StoredLogicalVolume | undefined) => boolean,
    signal: AbortSignal,
    outOfTime: () => MoorageError,
  ): Promise<StoredLogicalVolume | undefined> {
    const same = (current: StoredLogicalVolume | undefined) => (current?.metadata.uid === uid ? current : undefined);
    try {
      return same(await this.#watched.until(name, (current) => predicate(same(current)), signal));
    } catch (error) {
      throw signal.aborted ? outOfTime() : error; // who has no time left wants to hear what was not done
    }
  }

  /** The object that stands for the wish, made now or by an earlier call; the watch tells of it from here on. */
  async #ask(
    wish: Wish,
    refuseIfDifferent: (existing: StoredLogicalVolume) => void,
    signal: AbortSignal,
  ): Promise<StoredLogicalVolume> {
    try {
      const made = await this.#client.create(logicalVolumes, wish, { signal });
      await this.#untilWatched(made, signal);
      return made;
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
    }
    const { name } = wish.metadata;
    const known = this.#watched.get(name)?.metadata.uid;
    const existing = await this.#client.get(logicalVolumes, name, { signal });
    // What the watch told of before may have gone while it was read, and is never told of again.
    if (existing && existing.metadata.uid !== known) await this.#untilWatched(existing, signal);
    if (existing && !deleting(existing)) {
      refuseIfDifferent(existing);
      return existing;
    }
    if (existing) await this.#untilGone(existing, signal);
    return this.#ask(wish, refuseIfDifferent, signal);
  }

  async #untilAnswered(asked: StoredLogicalVolume, signal: AbortSignal): Promise<StoredLogicalVolume> {
    const notMade = () => new VolumeNotMade(asked);
    const current = await this.until(asked, (current) => !current || answered(current), signal, notMade);
    if (!current) throw notMade();
    return current;
  }

  async #untilGone(volume: StoredLogicalVolume, signal: AbortSignal): Promise<void> {
    let last = volume;
    const isSettled = (current: StoredLogicalVolume | undefined) => {
      if (current) last = current;
      return !current || removalFailureOf(current) !== undefined;
    };
    const left = await this.until(volume, isSettled, signal, () => new VolumeNotRemoved(last));
    const failure = left && removalFailureOf(left);
    if (failure) throw new NodeRefused(volume.spec.nodeName, failure);
  }

  /** The watch lags behind what the API server told us directly; before it has caught up, "not there" means nothing. */
  async #untilWatched(volume: StoredLogicalVolume, signal: AbortSignal): Promise<void> {
    await this.until(volume, Boolean, signal, () => new WatchBehind(volume.metadata.name));
  }

  async #delete(volume: StoredLogicalVolume, signal: AbortSignal): Promise<void> {
    const { name, uid } = volume.metadata;
    if (deleting(volume)) return;
    try {
      await this.#client.delete(logicalVolumes, name, { preconditions: { uid }, signal });
    } catch (error) {
      if (!isConflict(error)) throw error; // another object has the name by now: ours is gone
    }
  }
}

/** An object's name may hold no capitals, CSI's names may. */
export function objectName(name: string): string {
  return name.toLowerCase();
}

/** To make an empty volume, nothing but its device class must be there already. */
function creationRefused({ spec }: StoredLogicalVolume, failure: Failure): MoorageError {
  const isForClass = !spec.source && failure.code === numberOf('NotFound');
  return isForClass ? new ClassNotThere(spec.nodeName, failure) : new NodeRefused(spec.nodeName, failure);
}

function onlyOne(id: string, volumes: readonly StoredLogicalVolume[]): StoredLogicalVolume | undefined {
  if (volumes.length > 1) throw new AmbiguousVolume(id, volumes);
  return volumes[0];
}

function answered(volume: StoredLogicalVolume): boolean {
  const { volumeID, currentSize } = volume.status ?? {};
  return Boolean(volumeID && currentSize) || failureOf(volume) !== undefined;
}

import { localPvAnnotations, localPvStatus } from '../../api/local-pv.ts';
import { messageOf } from '../../base/errors.ts';
import type { KubeClient } from '../../kube/client.ts';
import { shortened } from '../../kube/events.ts';
import { type PersistentVolume, persistentVolumes, type Stored } from '../../kube/resource.ts';
import { effectiveOptions, type StaticVolume, wasProcessed } from '../../local-pv/static-volume.ts';
import type { Held } from './next-step.ts';

export type StoredPersistentVolume = Stored<PersistentVolume>;
type Annotations = Readonly<Record<string, string | null>>;

/** Leaves room in an Event, whose text is limited to 1024 bytes, for what the controller adds. */
const longestBytes = 900;

const { status, message, processed, removed, released } = localPvAnnotations;

/**
 * A node's answers in the annotations of its static PersistentVolumes, each in one PATCH, which fails if the object was
 * replaced by another of the same name. What the object already says is not written again.
 */
export class StaticVolumeWriter {
  readonly #client: Pick<KubeClient, 'patch'>;

  constructor(client: Pick<KubeClient, 'patch'>) {
    this.#client = client;
  }

  /** The volume is mounted. `releasedBy` is the claim after which it was released, if it was. */
  async ready(
    pv: StoredPersistentVolume,
    wanted: StaticVolume,
    { pool, volume }: Held,
    releasedBy: string | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const answer = {
      ...effectiveOptions(wanted, volume.sizeBytes, pool.details()?.volumeGroup),
      [status]: localPvStatus.processed,
      [processed]: 'true',
      [message]: null,
      ...(releasedBy !== undefined && { [released]: releasedBy }),
    };
    await this.#annotate(pv, answer, signal);
  }

  /** The volume of a deleted PersistentVolume is gone. */
  async gone(pv: StoredPersistentVolume, signal: AbortSignal): Promise<void> {
    await this.#annotate(pv, { [removed]: 'true', [message]: null }, signal);
  }

  async failed(pv: StoredPersistentVolume, error: unknown, signal: AbortSignal): Promise<void> {
    const known = wasProcessed(pv.metadata.annotations) ? { [processed]: 'true' } : {};
    await this.#annotate(pv, { ...known, [status]: localPvStatus.failed, ...explained(error) }, signal);
  }

  /** Why something could not be done to a volume that still works: its status stays. */
  async refused(pv: StoredPersistentVolume, error: unknown, signal: AbortSignal): Promise<void> {
    await this.#annotate(pv, explained(error), signal);
  }

  async #annotate({ metadata }: StoredPersistentVolume, answer: Annotations, signal: AbortSignal): Promise<void> {
    const { name, uid, annotations: current = {} } = metadata;
    const news = Object.entries(answer).filter(([key, value]) => (current[key] ?? null) !== value);
    if (news.length === 0) return;
    const body = { metadata: { uid, annotations: Object.fromEntries(news) } };
    await this.#client.patch(persistentVolumes, name, { type: 'merge', body }, { signal });
  }
}

function explained(error: unknown): Annotations {
  return { [message]: shortened(messageOf(error), longestBytes) };
}

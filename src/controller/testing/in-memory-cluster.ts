import type { TestContext } from 'node:test';
import {
  deleting,
  type LogicalVolume,
  type LogicalVolumeStatus,
  logicalVolumes,
  type StoredLogicalVolume,
} from '../../api/logical-volume.ts';
import { resizeRequestedAnnotation } from '../../api/names.ts';
import { systemClock } from '../../base/clock.ts';
import { silentLog } from '../../base/testing/silent-log.ts';
import { Informer } from '../../kube/informer.ts';
import { InMemoryApi } from '../../kube/testing/in-memory-api.ts';
import { LogicalVolumeObjects } from '../volumes/logical-volume-objects.ts';

/** A node's answer to a request; none if undefined. */
type Answer = (volume: StoredLogicalVolume) => LogicalVolumeStatus | undefined;

/** A node that does at once whatever is requested. */
interface NodeAnswers {
  readonly toRequest?: Answer;
  readonly toGrowth?: Answer;
  /** Without one it removes the volume. */
  readonly toRemoval?: Answer;
}

/** For tests: an in-memory API server, one controller's view of it, and the answers of its nodes. */
export class InMemoryCluster {
  readonly api: InMemoryApi<LogicalVolume>;
  readonly watched: Informer<LogicalVolume>;
  readonly objects: LogicalVolumeObjects;
  readonly #t: TestContext;

  constructor(t: TestContext, api = new InMemoryApi<LogicalVolume>()) {
    this.#t = t;
    this.api = api;
    this.watched = new Informer({ client: api.client, resource: logicalVolumes, clock: systemClock, log: silentLog });
    this.watched.start();
    t.after(() => this.watched.stop());
    this.objects = new LogicalVolumeObjects({ client: api.client, watched: this.watched });
  }

  /** Another controller that has just started on the same API server, with an empty cache. */
  replica(): InMemoryCluster {
    return new InMemoryCluster(this.#t, this.api);
  }

  nodesAnswer({ toRequest = created, toGrowth = grown, toRemoval }: NodeAnswers = {}): void {
    this.watched.onChange(({ kind, object, previous }) => {
      if (kind === 'added') this.#answer(object, toRequest(object));
      if (kind !== 'updated') return;
      if (deleting(object)) {
        if (deleting(previous)) return;
        if (toRemoval) this.#answer(object, toRemoval(object));
        else this.#removeFinalizer(object);
      } else if (requestedAt(object) !== requestedAt(previous)) {
        this.#answer(object, toGrowth(object));
      }
    });
  }

  #answer({ metadata }: StoredLogicalVolume, status: LogicalVolumeStatus | undefined): void {
    if (!status) return;
    const body = [{ op: 'add', path: '/status', value: status }] as const;
    void this.api.patch(logicalVolumes, metadata.name, { type: 'json', body }, { subresource: 'status' });
  }

  #removeFinalizer({ metadata }: StoredLogicalVolume): void {
    const body = [{ op: 'remove', path: '/metadata/finalizers/0' }] as const;
    void this.api.patch(logicalVolumes, metadata.name, { type: 'json', body });
  }
}

export function created({ metadata, spec }: StoredLogicalVolume): LogicalVolumeStatus {
  return { volumeID: metadata.uid, currentSize: spec.size, code: 0, message: '' };
}

export function grown(volume: StoredLogicalVolume): LogicalVolumeStatus {
  return { ...volume.status, ...answering(volume), currentSize: volume.spec.size, code: 0, message: '' };
}

/** Identifies the request that an answer to a growth belongs to. */
export function answering(volume: StoredLogicalVolume): LogicalVolumeStatus {
  const answeredResize = requestedAt(volume);
  return answeredResize === undefined ? {} : { answeredResize };
}

function requestedAt({ metadata }: StoredLogicalVolume): string | undefined {
  return metadata.annotations?.[resizeRequestedAnnotation];
}

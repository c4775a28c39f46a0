import { randomUUID } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import { KeyedQueue } from '../base/keyed-queue.ts';
import type { Log } from '../base/log.ts';
import { RateLimit } from '../base/rate-limit.ts';
import { Requeue } from '../base/requeue.ts';
import { isAlreadyExists, isNotFound } from './api-error.ts';
import type { KubeClient } from './client.ts';
import { microTime } from './micro-time.ts';
import { apiVersionOf, type Event, events, type KubeObject, type Resource, type Stored } from './resource.ts';

/** Something to tell people about an object. It must not hold a secret. */
export interface Happening {
  readonly type: 'Normal' | 'Warning';
  /** Why, as one UpperCamelCase word. */
  readonly reason: string;
  /** What was being done, as one UpperCamelCase word. */
  readonly action: string;
  /** One sentence for people. */
  readonly message: string;
}

export interface EventRecorderOptions {
  readonly client: KubeClient;
  /** Which program says so, as a name with a domain: `topolvm.io/node`. */
  readonly controller: string;
  /** Which of its instances: the pod or the node. */
  readonly instance: string;
  readonly clock: Clock;
  readonly log: Log;
}

/** The same thing said again and again about one object: one Event with a count. */
interface Series {
  readonly event: Event & { readonly metadata: { readonly name: string; readonly namespace: string } };
  count: number;
  lastAtMs: number;
  writtenCount: number;
  writtenAtMs: number;
}

/** Repeats within this time are counted in the same Event. */
const seriesEndsAfterMs = 10 * 60_000;
/** The count of one Event is brought up to date no more often than this. */
const rewriteAfterMs = 10_000;
const mostSeries = 1000;
const mostWaiting = 200;
const longestNoteBytes = 1024;

/**
 * Tells people what happened to an object, as Events on it. Recording never waits and never fails: Events are written in
 * the background, at a bounded rate; what cannot be written is logged and let go, as Events are a courtesy, not state.
 */
export class EventRecorder {
  readonly #client: KubeClient;
  readonly #controller: string;
  readonly #instance: string;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #series = new Map<string, Series>(); // the longest unheard of first
  readonly #unwritten = new Set<string>();
  readonly #rate: RateLimit;
  readonly #queue: KeyedQueue;

  constructor({ client, controller, instance, clock, log }: EventRecorderOptions) {
    this.#client = client;
    this.#controller = controller;
    this.#instance = instance;
    this.#clock = clock;
    this.#log = log;
    this.#rate = new RateLimit({ clock, burst: 50, perSecond: 5 });
    this.#queue = new KeyedQueue({
      reconcile: (key, signal) => this.#write(key, signal),
      concurrency: 1,
      clock,
      log,
      random: Math.random,
    });
  }

  record<T extends KubeObject>(resource: Resource<T>, about: Stored<T>, happening: Happening): void {
    const { type, reason, action, message } = happening;
    const key = JSON.stringify([about.metadata.uid, type, reason, action, message]);
    const nowMs = this.#clock.now();
    const known = this.#series.get(key);
    if (!known && this.#unwritten.size >= mostWaiting) {
      this.#log.warn({ about: about.metadata.name, reason, note: message }, 'too many events; this one is only logged');
      return;
    }
    const goesOn = known !== undefined && nowMs - known.lastAtMs < seriesEndsAfterMs;
    const series = goesOn ? known : this.#begin(resource, about, happening, nowMs);
    series.count += 1;
    series.lastAtMs = nowMs;
    this.#remember(key, series);
    this.#unwritten.add(key);
    this.#queue.addAfter(key, Math.max(0, series.writtenAtMs + rewriteAfterMs - nowMs));
  }

  /** Finishes the Event that is being written; those that wait are let go. */
  async stop(graceMs: number): Promise<void> {
    await this.#queue.stop(graceMs);
  }

  #begin<T extends KubeObject>(
    resource: Resource<T>,
    about: Stored<T>,
    { type, reason, action, message }: Happening,
    nowMs: number,
  ): Series {
    const { name, namespace, uid, resourceVersion } = about.metadata;
    const event = {
      // Events about objects without a namespace are in `default`, where kubectl looks for them.
      metadata: { name: `${name.slice(0, 200)}.${randomUUID()}`, namespace: namespace ?? 'default' },
      type,
      reason,
      action,
      note: shortened(message),
      eventTime: microTime(nowMs),
      reportingController: this.#controller,
      reportingInstance: this.#instance,
      regarding: {
        apiVersion: apiVersionOf(resource),
        kind: resource.kind,
        name,
        uid,
        resourceVersion,
        ...(namespace === undefined ? {} : { namespace }),
      },
    };
    return { event, count: 0, lastAtMs: nowMs, writtenCount: 0, writtenAtMs: Number.NEGATIVE_INFINITY };
  }

  #remember(key: string, series: Series): void {
    this.#series.delete(key);
    this.#series.set(key, series);
    for (const oldest of this.#series.keys()) {
      if (this.#series.size <= mostSeries) return;
      this.#series.delete(oldest);
    }
  }

  async #write(key: string, signal: AbortSignal): Promise<Requeue> {
    this.#unwritten.delete(key);
    const series = this.#series.get(key);
    if (!series || series.writtenCount === series.count) return Requeue.never;
    await this.#rate.take(signal);
    const { count } = series;
    series.writtenAtMs = this.#clock.now();
    try {
      if (series.writtenCount === 0) await this.#create(series, signal);
      else await this.#count(series, signal);
      series.writtenCount = count;
    } catch (error) {
      if (isNotFound(error)) this.#series.delete(key); // expired, or its namespace went: the next one begins anew
      const { reason, note, regarding } = series.event;
      this.#log.warn({ about: regarding?.name, reason, note, error: messageOf(error) }, 'an event was not written');
    }
    return Requeue.never;
  }

  async #create(series: Series, signal: AbortSignal): Promise<void> {
    try {
      await this.#client.create(events, { ...series.event, ...seriesOf(series) }, { signal });
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      await this.#count(series, signal); // an earlier try arrived, only its answer did not
    }
  }

  async #count(series: Series, signal: AbortSignal): Promise<void> {
    const { name, namespace } = series.event.metadata;
    await this.#client.patch(events, name, { type: 'merge', body: seriesOf(series) }, { namespace, signal });
  }
}

/** A series is what happened more than once. */
function seriesOf({ count, lastAtMs }: Series): Pick<Event, 'series'> {
  return count > 1 ? { series: { count, lastObservedTime: microTime(lastAtMs) } } : {};
}

/** The API server takes no more than 1 KiB. */
function shortened(note: string): string {
  if (Buffer.byteLength(note) <= longestNoteBytes) return note;
  const kept = Buffer.from(note).subarray(0, longestNoteBytes - 3);
  // A character that was cut in two decodes to U+FFFD, which is longer than what was left of it.
  return `${kept.toString().replace(/\uFFFD+$/, '')}…`;
}

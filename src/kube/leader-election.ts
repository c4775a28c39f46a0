import { pause } from '../base/abortable.ts';
import type { Clock } from '../base/clock.ts';
import { InvalidInput, MoorageError, messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { isAlreadyExists, isConflict } from './api-error.ts';
import type { KubeClient } from './client.ts';
import { Deadline } from './deadline.ts';
import { Informer } from './informer.ts';
import { type Lease, leases, microTime, type Stored } from './resource.ts';

export interface LeaderElectionOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly name: string;
  /** Unique among candidates, also after a restart: the pod's name and a random part. */
  readonly identity: string;
  readonly timing?: LeaseTiming;
  readonly clock: Clock;
  readonly log: Log;
}

/** Each must be longer than the next; otherwise a leader could lose leadership while it still believes it has it. */
export interface LeaseTiming {
  /** How long others wait for a leader that does not renew. */
  readonly leaseDurationMs: number;
  /** How long a leader tries to renew before it gives up leadership. */
  readonly renewDeadlineMs: number;
  readonly retryPeriodMs: number;
}

export const defaultTiming: LeaseTiming = { leaseDurationMs: 15_000, renewDeadlineMs: 10_000, retryPeriodMs: 2_000 };

/** The deadline counts from an answer, others count from the write: an answer this late still leaves a margin. */
const answerWithinMs = 4_000;

export class LeadershipLost extends MoorageError {
  readonly code = 'Aborted';
}

type Lead = (signal: AbortSignal) => Promise<void>;

/**
 * Elects one leader among several candidates with a Lease, which the leader renews and others take when it expires.
 *
 * Every write is a compare-and-swap on the lease's resourceVersion, so two candidates never both succeed. No clocks are
 * compared: a candidate measures, on its own clock, how long the lease did not change. Candidates watch the lease and do
 * not poll it, so a released lease is taken at once.
 *
 * This does not fence: requests that a leader sent before it lost leadership may still arrive. Writes that must not
 * happen twice need their own preconditions.
 */
export class LeaderElection {
  readonly #client: KubeClient;
  readonly #namespace: string;
  readonly #name: string;
  readonly #key: string;
  readonly #identity: string;
  readonly #timing: LeaseTiming;
  readonly #clock: Clock;
  readonly #log: Log;
  #leading = false;

  constructor({ client, namespace, name, identity, timing = defaultTiming, clock, log }: LeaderElectionOptions) {
    mustDescend(timing);
    this.#client = client;
    this.#namespace = namespace;
    this.#name = name;
    this.#key = `${namespace}/${name}`;
    this.#identity = identity;
    this.#timing = timing;
    this.#clock = clock;
    this.#log = log.child({ lease: this.#key, identity });
  }

  get leading(): boolean {
    return this.#leading;
  }

  /**
   * Campaigns until `signal` aborts. While we lead, `lead` runs; its signal aborts as soon as leadership is lost,
   * and once it has ended we campaign again. When `signal` aborts, the lease is released after `lead` has ended.
   * If `lead` returns by itself, or throws, so does this.
   */
  async run(lead: Lead, signal: AbortSignal): Promise<void> {
    const watch = new Informer({
      client: this.#client,
      resource: leases,
      namespace: this.#namespace,
      fieldSelector: `metadata.name=${this.#name}`,
      clock: this.#clock,
      log: this.#log,
    });
    watch.start();
    try {
      for (let goOn = true; goOn; ) {
        const lease = await this.#acquire(watch, signal);
        goOn = await this.#hold(lease, lead, signal);
      }
    } catch (error) {
      if (error !== signal.reason) throw error;
    } finally {
      await watch.stop();
    }
  }

  async #acquire(watch: Informer<Lease>, signal: AbortSignal): Promise<Stored<Lease>> {
    await watch.whenSynced(signal);
    for (;;) {
      const seen = watch.get(this.#key);
      const takeable =
        isFree(seen, this.#identity) || (await this.#unchangedFor(this.#durationMs(seen), watch, seen, signal));
      if (!takeable) continue;
      const lease = await this.#tryToTake(seen, signal);
      if (lease) return lease;
      await this.#unchangedFor(this.#timing.retryPeriodMs, watch, seen, signal);
    }
  }

  /** False as soon as the lease changes; true if it did not change for this long. */
  async #unchangedFor(
    periodMs: number,
    watch: Informer<Lease>,
    seen: Stored<Lease> | undefined,
    signal: AbortSignal,
  ): Promise<boolean> {
    using period = new Deadline(this.#clock, periodMs, signal);
    const changed = (now: Stored<Lease> | undefined) =>
      now?.metadata.resourceVersion !== seen?.metadata.resourceVersion;
    try {
      await watch.until(this.#key, changed, period.signal);
      return false;
    } catch (error) {
      if (period.expired) return true;
      throw error;
    }
  }

  /** Undefined if another candidate was faster, or the server did not answer. */
  async #tryToTake(seen: Stored<Lease> | undefined, signal: AbortSignal): Promise<Stored<Lease> | undefined> {
    const now = microTime(this.#clock.now());
    const spec = {
      holderIdentity: this.#identity,
      leaseDurationSeconds: Math.ceil(this.#timing.leaseDurationMs / 1000),
      acquireTime: now,
      renewTime: now,
      leaseTransitions: seen ? (seen.spec?.leaseTransitions ?? 0) + 1 : 0,
    };
    try {
      using deadline = new Deadline(this.#clock, answerWithinMs, signal);
      if (seen) return await this.#swap(seen, spec, deadline.signal);
      const metadata = { name: this.#name, namespace: this.#namespace };
      return await this.#client.create(leases, { metadata, spec }, { signal: deadline.signal });
    } catch (error) {
      signal.throwIfAborted();
      if (isConflict(error) || isAlreadyExists(error)) return undefined;
      this.#log.warn({ error: messageOf(error) }, 'cannot acquire the lease; retrying');
      return undefined;
    }
  }

  /** Leads until leadership is lost (returns true: campaign again) or until `lead` ends (returns false). */
  async #hold(lease: Stored<Lease>, lead: Lead, signal: AbortSignal): Promise<boolean> {
    const term = new AbortController();
    const end = () => term.abort(signal.reason);
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
    this.#log.info('leading');
    this.#leading = true;
    let lost: unknown;
    const renewal = this.#renew(lease, term.signal).catch((error: unknown) => {
      lost = error;
      this.#leading = false;
      this.#log.warn({ error: messageOf(error) }, 'lost leadership');
      term.abort(error);
      return undefined;
    });
    try {
      await lead(term.signal);
    } catch (error) {
      if (!term.signal.aborted) throw error;
      if (error !== term.signal.reason) this.#log.warn({ error: messageOf(error) }, 'failed after losing leadership');
    } finally {
      signal.removeEventListener('abort', end);
      term.abort();
      const last = await renewal;
      this.#leading = false;
      if (last) await this.#release(last);
    }
    return lost !== undefined && !signal.aborted;
  }

  /** Returns the last lease when the signal aborts; throws when leadership is lost. */
  async #renew(lease: Stored<Lease>, signal: AbortSignal): Promise<Stored<Lease>> {
    let current = lease;
    for (;;) {
      using deadline = new Deadline(this.#clock, this.#timing.renewDeadlineMs, signal);
      try {
        current = await this.#renewOnce(current, deadline.signal);
      } catch (error) {
        if (signal.aborted) return current;
        if (!deadline.expired) throw error;
        throw new LeadershipLost('the lease was not renewed in time; check that the API server is reachable', {
          cause: error,
        });
      }
    }
  }

  async #renewOnce(lease: Stored<Lease>, signal: AbortSignal): Promise<Stored<Lease>> {
    let current = lease;
    for (let changed = false; ; ) {
      if (!changed) await pause(this.#clock, this.#timing.retryPeriodMs, signal);
      try {
        using answer = new Deadline(this.#clock, answerWithinMs, signal);
        if (changed) current = await this.#stillOurs(answer.signal);
        return await this.#swap(current, { renewTime: microTime(this.#clock.now()) }, answer.signal);
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof LeadershipLost) throw error;
        changed = isConflict(error); // perhaps by us: a renewal whose answer was lost
        if (!changed) this.#log.warn({ error: messageOf(error) }, 'cannot renew the lease; retrying');
      }
    }
  }

  async #stillOurs(signal: AbortSignal): Promise<Stored<Lease>> {
    const lease = await this.#client.get(leases, this.#name, { namespace: this.#namespace, signal });
    if (lease?.spec?.holderIdentity === this.#identity) return lease;
    const holder = lease?.spec?.holderIdentity || 'nobody';
    throw new LeadershipLost(`the lease was taken by ${holder}; wait until it is free again`);
  }

  /** So that the next leader need not wait until the lease expires. */
  async #release(lease: Stored<Lease>): Promise<void> {
    using deadline = new Deadline(this.#clock, answerWithinMs);
    try {
      await this.#swap(lease, { holderIdentity: '', leaseDurationSeconds: 1 }, deadline.signal);
    } catch (error) {
      this.#log.warn({ error: messageOf(error) }, 'cannot release the lease; it will expire');
    }
  }

  /** How long this lease lasts without renewal, as its holder wrote it. */
  #durationMs(lease: Stored<Lease> | undefined): number {
    const seconds = lease?.spec?.leaseDurationSeconds;
    return seconds ? seconds * 1000 : this.#timing.leaseDurationMs;
  }

  async #swap(lease: Stored<Lease>, spec: NonNullable<Lease['spec']>, signal: AbortSignal): Promise<Stored<Lease>> {
    const { resourceVersion } = lease.metadata;
    const body = { metadata: { resourceVersion }, spec };
    return await this.#client.patch(
      leases,
      this.#name,
      { type: 'merge', body },
      { namespace: this.#namespace, signal },
    );
  }
}

function isFree(lease: Stored<Lease> | undefined, identity: string): boolean {
  const holder = lease?.spec?.holderIdentity;
  return !holder || holder === identity;
}

function mustDescend({ leaseDurationMs, renewDeadlineMs, retryPeriodMs }: LeaseTiming): void {
  if (leaseDurationMs > renewDeadlineMs && renewDeadlineMs > retryPeriodMs && retryPeriodMs > 0) return;
  throw new InvalidInput(
    '--leader-election-lease-duration must be longer than --leader-election-renew-deadline, ' +
      'and that longer than --leader-election-retry-period; increase the first or decrease the others',
  );
}

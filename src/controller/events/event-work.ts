import type { Clock } from '../../base/clock.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import { RateLimit } from '../../base/rate-limit.ts';
import type { Work } from '../../base/work.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type About, type EventContent, type Reporter, writeEvent } from '../../kube/events.ts';

interface Options {
  readonly name: string;
  /** Reports Events about the object of a key, on each change. Returns what ends its subscriptions. */
  readonly watch: (report: (key: string, events: readonly EventContent[]) => void) => readonly (() => void)[];
  readonly about: (key: string, signal: AbortSignal) => Promise<About>;
  readonly client: Pick<KubeClient, 'create'>;
  readonly reporter: Reporter;
  readonly clock: Clock;
}

/** Events are optional: a burst of changes must not keep the API server busy with them. */
const writes = { burst: 50, perSecond: 10 };

/** Writes Events about changes, in order for each object, until they are written. */
export function eventWork({ name, watch, about, client, reporter, clock }: Options): Work {
  const rate = new RateLimit({ clock, ...writes });
  /** Events to write, by key. */
  const pending = new Map<string, EventContent[]>();

  const reconcile = async (key: string, signal: AbortSignal): Promise<Requeue> => {
    for (const event of pending.get(key) ?? []) {
      await rate.take(signal);
      await writeEvent(client, reporter, await about(key, signal), event, clock.now(), signal);
      const left = (pending.get(key) ?? []).filter((other) => other !== event);
      if (left.length > 0) pending.set(key, left);
      else pending.delete(key);
    }
    return Requeue.never;
  };

  return {
    name,
    watch: (queue) =>
      watch((key, events) => {
        if (events.length === 0) return;
        pending.set(key, [...(pending.get(key) ?? []), ...events]);
        queue.add(key);
      }),
    reconcile,
    concurrency: 4,
    leaderOnly: true,
  };
}

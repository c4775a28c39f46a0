import { createHash } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { isAlreadyExists, isNamespaceGone } from './api-error.ts';
import type { KubeClient } from './client.ts';
import { apiVersionOf, type Event, events, type KubeObject, microTime, type Resource } from './resource.ts';

/** A message to users about an object. It must not contain a secret. */
export interface EventContent {
  readonly type: 'Normal' | 'Warning';
  /** Why, as one UpperCamelCase word. */
  readonly reason: string;
  /** What was being done, as one UpperCamelCase word. */
  readonly action: string;
  /** One sentence for people. */
  readonly message: string;
}

/** The object of the Event. `kubectl describe` shows an Event only if it has the object's uid. */
export interface About {
  readonly resource: Resource<KubeObject>;
  readonly name: string;
  readonly namespace?: string | undefined;
  readonly uid?: string | undefined;
}

/** The reporting program, as a name with a domain such as `topolvm.io/node`, and its instance. */
export interface Reporter {
  readonly controller: string;
  readonly instance: string;
}

/** The API server's limit for notes. */
const longestNoteBytes = 1024;

/**
 * Writes an Event once: its name is derived from its content, so the same report, also by another replica or after a
 * restart, is the same Event. It expires after the API server's `--event-ttl`, an hour by default.
 */
export async function writeEvent(
  client: Pick<KubeClient, 'create'>,
  reporter: Reporter,
  about: About,
  event: EventContent,
  nowMs: number,
  signal: AbortSignal,
): Promise<void> {
  try {
    await client.create(events, toEvent(reporter, about, event, nowMs), { signal });
  } catch (error) {
    // Nobody reads the Events of a namespace that was deleted, with the claims in it.
    if (!isAlreadyExists(error) && !isNamespaceGone(error)) throw error;
  }
}

/** What is needed to write Events. */
export interface Reporting {
  readonly client: Pick<KubeClient, 'create'>;
  readonly reporter: Reporter;
  readonly clock: Clock;
  readonly log: Log;
}

/** An Event that cannot be written, such as in a namespace that is being deleted, does not stop the work: it is logged. */
export async function report(
  { client, reporter, clock, log }: Reporting,
  about: About,
  event: EventContent,
  signal: AbortSignal,
): Promise<void> {
  try {
    await writeEvent(client, reporter, about, event, clock.now(), signal);
  } catch (error) {
    if (signal.aborted) throw error;
    log.warn({ name: about.name, reason: event.reason }, `cannot write an Event: ${messageOf(error)}`);
  }
}

function toEvent(reporter: Reporter, about: About, event: EventContent, nowMs: number): Event {
  const { resource, name, namespace, uid } = about;
  const { type, reason, action, message } = event;
  const content = JSON.stringify([resource.kind, namespace, name, uid, type, reason, message]);
  const hash = createHash('sha256').update(content).digest('hex').slice(0, 16);
  return {
    // Events about objects without a namespace are in `default`, where kubectl looks for them.
    metadata: { name: `${name.slice(0, 200)}.${hash}`, namespace: namespace ?? 'default' },
    type,
    reason,
    action,
    note: shortened(message, longestNoteBytes),
    eventTime: microTime(nowMs),
    reportingController: reporter.controller,
    reportingInstance: reporter.instance,
    regarding: {
      apiVersion: apiVersionOf(resource),
      kind: resource.kind,
      name,
      ...(uid !== undefined && { uid }),
      ...(namespace !== undefined && { namespace }),
    },
  };
}

/** The text, or as much of its beginning as fits. */
export function shortened(text: string, longestBytes: number): string {
  if (Buffer.byteLength(text) <= longestBytes) return text;
  const kept = Buffer.from(text).subarray(0, longestBytes - 3);
  // A character cut in two decodes to U+FFFD, which is longer than the remaining bytes.
  return `${kept.toString().replace(/\uFFFD+$/, '')}…`;
}

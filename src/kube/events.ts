import { createHash } from 'node:crypto';
import { isAlreadyExists } from './api-error.ts';
import type { KubeClient } from './client.ts';
import { apiVersionOf, type Event, events, type KubeObject, microTime, type Resource } from './resource.ts';

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

/** The object that something happened to. `kubectl describe` shows an Event only with the object's uid. */
export interface About {
  readonly resource: Resource<KubeObject>;
  readonly name: string;
  readonly namespace?: string | undefined;
  readonly uid?: string | undefined;
}

/** Which program reports, as a name with a domain such as `topolvm.io/node`, and which instance of it. */
export interface Reporter {
  readonly controller: string;
  readonly instance: string;
}

/** The API server takes no longer notes. */
const longestNoteBytes = 1024;

/**
 * Writes an Event, once: its name follows from what it says, so that the same thing reported again, also by another replica
 * or after a restart, is the same Event. It is gone after the API server's `--event-ttl`, an hour by default.
 */
export async function writeEvent(
  client: Pick<KubeClient, 'create'>,
  reporter: Reporter,
  about: About,
  happening: Happening,
  nowMs: number,
  signal: AbortSignal,
): Promise<void> {
  try {
    await client.create(events, toEvent(reporter, about, happening, nowMs), { signal });
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
  }
}

function toEvent(reporter: Reporter, about: About, happening: Happening, nowMs: number): Event {
  const { resource, name, namespace, uid } = about;
  const { type, reason, action, message } = happening;
  const content = JSON.stringify([resource.kind, namespace, name, uid, type, reason, message]);
  const hash = createHash('sha256').update(content).digest('hex').slice(0, 16);
  return {
    // Events about objects without a namespace are in `default`, where kubectl looks for them.
    metadata: { name: `${name.slice(0, 200)}.${hash}`, namespace: namespace ?? 'default' },
    type,
    reason,
    action,
    note: shortened(message),
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

function shortened(note: string): string {
  if (Buffer.byteLength(note) <= longestNoteBytes) return note;
  const kept = Buffer.from(note).subarray(0, longestNoteBytes - 3);
  // A character that was cut in two decodes to U+FFFD, which is longer than what was left of it.
  return `${kept.toString().replace(/\uFFFD+$/, '')}…`;
}

import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { KubeClient } from './client.ts';
import type { KubeObject, Resource, Stored } from './resource.ts';

export interface Happening {
  readonly type: 'Normal' | 'Warning';
  /** Why, as one UpperCamelCase word. */
  readonly reason: string;
  /** What was being done, as one UpperCamelCase word. */
  readonly action: string;
  /** One sentence for people. */
  readonly message: string;
}

export declare class EventRecorder {
  constructor(collaborators: { client: KubeClient; controller: string; instance: string; clock: Clock; log: Log });
  /** Returns at once; the Event is written in the background. */
  record<T extends KubeObject>(resource: Resource<T>, about: Stored<T>, happening: Happening): void;
  /** Writes what is still waiting, then stops taking more. */
  stop(signal: AbortSignal): Promise<void>;
}

import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { KubeClient, Selection } from './client.ts';
import type { KubeObject, Resource, Stored } from './resource.ts';

export type Change<P> =
  | { readonly kind: 'added'; readonly key: string; readonly object: P; readonly previous: undefined }
  | { readonly kind: 'updated'; readonly key: string; readonly object: P; readonly previous: P }
  /** `object` is the last state that we know of. */
  | { readonly kind: 'deleted'; readonly key: string; readonly object: P; readonly previous: P };

export declare class Informer<T extends KubeObject, P = Stored<T>> {
  constructor(
    collaborators: Selection & {
      client: KubeClient;
      resource: Resource<T>;
      /** What to keep of each object; the whole object, less its managedFields, if not given. */
      project?: (object: Stored<T>) => P;
      clock: Clock;
      log: Log;
    },
  );
  start(): void;
  stop(): Promise<void>;
  whenSynced(signal?: AbortSignal): Promise<void>;
  /** `key` is `namespace/name`, or `name` where there are no namespaces. */
  get(key: string): P | undefined;
  list(): P[];
  /** What is there already is told as added, at once. Returns how to stop. */
  onChange(handler: (change: Change<P>) => void): () => void;
  /** Waits, by the watch, until the object (undefined if there is none) is as wanted; looks at the cache first. */
  until(key: string, predicate: (object: P | undefined) => boolean, signal: AbortSignal): Promise<P | undefined>;
  get synced(): boolean;
  get size(): number;
  get lastEventAtMs(): number | undefined;
  get relists(): number;
  get reconnects(): number;
}

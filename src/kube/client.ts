import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Connection } from './connection.ts';
import type { KubeObject, Resource, Stored } from './resource.ts';
import type { WatchEvent } from './watch-event.ts';

export interface Selection {
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

export interface JsonPatchStep {
  readonly op: 'add' | 'remove' | 'replace' | 'test';
  readonly path: string;
  readonly value?: unknown;
}

export type Patch =
  | { readonly type: 'merge'; readonly body: object }
  | { readonly type: 'json'; readonly body: readonly JsonPatchStep[] }
  | { readonly type: 'apply'; readonly body: object; readonly fieldManager: string; readonly force?: boolean };

export declare class KubeClient {
  constructor(collaborators: { connection: Connection; clock: Clock; log: Log; timeoutMs?: number });
  get<T extends KubeObject>(
    resource: Resource<T>,
    name: string,
    options?: { namespace?: string; signal?: AbortSignal },
  ): Promise<Stored<T> | undefined>;
  list<T extends KubeObject, P = Stored<T>>(
    resource: Resource<T>,
    options?: Selection & { pageSize?: number; project?: (object: Stored<T>) => P; signal?: AbortSignal },
  ): Promise<{ items: P[]; resourceVersion: string }>;
  create<T extends KubeObject>(
    resource: Resource<T>,
    object: T,
    options?: { namespace?: string; signal?: AbortSignal },
  ): Promise<Stored<T>>;
  patch<T extends KubeObject>(
    resource: Resource<T>,
    name: string,
    patch: Patch,
    options?: { namespace?: string; subresource?: 'status'; signal?: AbortSignal },
  ): Promise<Stored<T>>;
  /** False if there was nothing to delete. */
  delete<T extends KubeObject>(
    resource: Resource<T>,
    name: string,
    options?: {
      namespace?: string;
      preconditions?: { uid?: string; resourceVersion?: string };
      propagationPolicy?: 'Orphan' | 'Background' | 'Foreground';
      gracePeriodSeconds?: number;
      signal?: AbortSignal;
    },
  ): Promise<boolean>;
  watch<T extends KubeObject>(
    resource: Resource<T>,
    options: Selection & {
      resourceVersion?: string;
      sendInitialEvents?: boolean;
      idleTimeoutMs?: number;
      signal?: AbortSignal;
    },
  ): AsyncIterable<WatchEvent<T>>;
  close(): Promise<void>;
}

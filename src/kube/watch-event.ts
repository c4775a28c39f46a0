import type { KubeObject, Stored } from './resource.ts';

/** What a watch tells. An `ERROR` of the server is not an event here: the watch throws it. */
export type WatchEvent<T extends KubeObject> =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: Stored<T> }
  | { readonly type: 'BOOKMARK'; readonly resourceVersion: string; readonly initialEventsEnd: boolean };

import { MoorageError } from '../base/errors.ts';
import { ApiError, type ApiStatus } from './api-error.ts';
import type { KubeObject, Stored } from './resource.ts';

/** What a watch yields. An `ERROR` from the server is not an event here: the watch throws it. */
export type WatchEvent<T extends KubeObject> =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: Stored<T> }
  | Bookmark;

/** Marks how far the watch has come; `initialEventsEnd` marks the end of the initial state. */
export interface Bookmark {
  readonly type: 'BOOKMARK';
  readonly resourceVersion: string;
  readonly initialEventsEnd: boolean;
}

const newline = 0x0a;
/** etcd accepts objects of up to 1.5 MiB; a far longer line is not an event. */
const longestLineBytes = 32 * 1024 * 1024;

/** The stream ended within an event, or carried something else. */
export class WatchGarbled extends MoorageError {
  readonly code = 'Unavailable';
}

/**
 * The lines of a byte stream, however it is cut into chunks. Bytes are split before they are decoded: a newline byte is
 * never part of another UTF-8 character.
 */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, void> {
  let parts: Uint8Array[] = [];
  let partsBytes = 0;
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, start)) {
      parts.push(chunk.subarray(start, end));
      yield Buffer.concat(parts).toString();
      parts = [];
      partsBytes = 0;
      start = end + 1;
    }
    if (start === chunk.length) continue;
    parts.push(chunk.subarray(start));
    partsBytes += chunk.length - start;
    if (partsBytes > longestLineBytes) throw new WatchGarbled('a watch sent a line that is too long; reconnecting');
  }
  if (partsBytes > 0) throw new WatchGarbled('a watch ended within an event; reconnecting');
}

export async function* watchEvents<T extends KubeObject>(
  request: string,
  chunks: AsyncIterable<Uint8Array>,
): AsyncGenerator<WatchEvent<T>, void, void> {
  for await (const line of linesOf(chunks)) {
    if (line !== '') yield parseEvent(request, line);
  }
}

function parseEvent<T extends KubeObject>(request: string, line: string): WatchEvent<T> {
  const { type, object } = parseJson(line);
  switch (type) {
    case 'ADDED':
    case 'MODIFIED':
    case 'DELETED':
      return { type, object: object as Stored<T> };
    case 'BOOKMARK': {
      const { resourceVersion, annotations } = (object as Stored<T>).metadata;
      return {
        type,
        resourceVersion,
        initialEventsEnd: annotations?.['k8s.io/initial-events-end'] === 'true',
      };
    }
    case 'ERROR':
      throw new ApiError(request, object as ApiStatus);
    default:
      throw new WatchGarbled(`a watch sent an event of unknown type ${type}; reconnecting`);
  }
}

function parseJson(line: string): { type: string; object: unknown } {
  try {
    return JSON.parse(line) as { type: string; object: unknown };
  } catch (cause) {
    throw new WatchGarbled('a watch sent a line that is not JSON; reconnecting', { cause });
  }
}

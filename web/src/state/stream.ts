import type { Message } from '../../../src/plugin/page/model.ts';
import type { Store } from './store.ts';

const retryMs = 1_000;

/** Reads the stream of the server into the store, for as long as the page is open. */
export async function follow(store: Store, token: string): Promise<void> {
  for (;;) {
    try {
      const response = await fetch('/api/stream', { headers: { authorization: `Bearer ${token}` } });
      if (response.status === 401) return store.connection('refused');
      if (response.ok && response.body) await read(store, response.body);
    } catch {
      // The server is not there: it was ended, or the machine slept. The state of the connection says so.
    }
    store.connection('lost');
    await new Promise((resolve) => setTimeout(resolve, retryMs));
  }
}

async function read(store: Store, body: ReadableStream<Uint8Array>): Promise<void> {
  store.begin();
  const reader = body.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) store.apply(JSON.parse(line) as Message);
  }
}

export class Refused extends Error {}

/** One answer of the server. */
export async function ask<T>(path: string, token: string, signal: AbortSignal): Promise<T> {
  const response = await fetch(path, { headers: { authorization: `Bearer ${token}` }, signal });
  const body = (await response.json()) as T & { readonly message?: string };
  if (!response.ok) throw new Refused(body.message ?? `HTTP ${response.status}`);
  return body;
}

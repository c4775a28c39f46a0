import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { isGone } from './api-error.ts';
import { linesOf, WatchGarbled, watchEvents } from './watch-stream.ts';

async function* chunksOf(bytes: Uint8Array, cuts: readonly number[]): AsyncGenerator<Uint8Array> {
  let start = 0;
  for (const end of [...cuts].sort((a, b) => a - b).concat(bytes.length)) {
    yield bytes.subarray(start, end);
    start = end;
  }
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

const whole = (text: string) => chunksOf(Buffer.from(text), []);

test('lines do not depend on how the stream is cut, even within a character', async () => {
  const line = fc.string({ unit: 'binary', maxLength: 20 }).map((text) => text.replaceAll('\n', ' ').toWellFormed());
  const cuts = fc.array(fc.nat(200));
  await fc.assert(
    fc.asyncProperty(fc.array(line), cuts, async (lines, cuts) => {
      const bytes = Buffer.from(lines.map((text) => `${text}\n`).join(''));
      const within = cuts.filter((cut) => cut <= bytes.length);
      assert.deepEqual(await all(linesOf(chunksOf(bytes, within))), lines);
    }),
  );
});

test('a stream that ends within a line is an error', async () => {
  await assert.rejects(all(linesOf(whole('{"type":"ADDED"}\n{"ty'))), WatchGarbled);
});

test('a watch yields events and bookmarks', async () => {
  const added = { type: 'ADDED', object: { metadata: { name: 'a', resourceVersion: '7' } } };
  const bookmark = (annotations?: object) => ({
    type: 'BOOKMARK',
    object: { metadata: { resourceVersion: '8', annotations } },
  });
  const end = bookmark({ 'k8s.io/initial-events-end': 'true' });
  const text = [added, bookmark(), end].map((event) => `${JSON.stringify(event)}\n`).join('');
  assert.deepEqual(await all(watchEvents('the watch', whole(text))), [
    added,
    { type: 'BOOKMARK', resourceVersion: '8', initialEventsEnd: false },
    { type: 'BOOKMARK', resourceVersion: '8', initialEventsEnd: true },
  ]);
});

test('an ERROR event is thrown as an API error', async () => {
  const gone = '{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n';
  await assert.rejects(all(watchEvents('the watch', whole(gone))), isGone);
});

test('an invalid event breaks the watch', async () => {
  for (const text of ['<html>\n', '{"type":"NEWS","object":{}}\n']) {
    await assert.rejects(all(watchEvents('the watch', whole(text))), WatchGarbled);
  }
});

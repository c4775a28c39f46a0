import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Listeners } from '../base/listeners.ts';
import { Pools } from '../engine/pools.ts';
import { InMemoryPool } from '../engine/testing/in-memory-pool.ts';
import { changes } from './vg-service.ts';

const volume = (id: string) => ({ id, sizeBytes: 1n, tags: [] });

test('changes while the consumer is busy are reported once, and none is lost', async () => {
  const pool = new InMemoryPool('ssd', 100n);
  const news = changes(new Pools([pool]), new AbortController().signal);
  await news.next();
  for (const id of ['a', 'b', 'c']) await pool.create(volume(id));
  await news.next();
  const next = news.next();
  await pool.create(volume('d'));
  assert.equal((await next).done, false);
  await news.return(undefined);
});

test('added and removed classes are changes too', async () => {
  const pools = new Pools();
  const news = changes(pools, new AbortController().signal);
  await news.next();
  const next = news.next();
  pools.become({ pools: [new InMemoryPool('ssd', 1n)], defaultClass: 'ssd', unavailable: new Map() });
  assert.equal((await next).done, false);
  await news.return(undefined);
});

test('a consumer that stops, by itself or by its signal, is unsubscribed', async () => {
  let listeners = 0;
  const all = new Listeners();
  const pools = {
    onChange(listener: () => void) {
      listeners++;
      const stop = all.add(listener);
      return () => {
        listeners--;
        stop();
      };
    },
  };
  const abort = new AbortController();
  const [left, aborted] = [changes(pools, abort.signal), changes(pools, abort.signal)];
  await Promise.all([left.next(), aborted.next()]);
  assert.equal(listeners, 2);
  await left.return(undefined);
  const waiting = aborted.next();
  abort.abort();
  await assert.rejects(waiting, { name: 'AbortError' });
  assert.equal(listeners, 0);
});

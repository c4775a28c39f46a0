import assert from 'node:assert/strict';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { DirectoryWatch } from './directory-watch.ts';
import { ManualClock } from './testing/manual-clock.ts';
import { silentLog } from './testing/silent-log.ts';

test('files are read again once after a burst of changes, also after a rename, and never twice at once', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'watched-'));
  t.after(() => rm(directory, { recursive: true }));
  const clock = new ManualClock();
  let reads = 0;
  let running = 0;
  const slow = Promise.withResolvers<void>();
  const read = async () => {
    reads += 1;
    running += 1;
    assert.equal(running, 1);
    await slow.promise;
    running -= 1;
  };
  const watched = new DirectoryWatch({ directory, clock, log: silentLog, read });
  const noticed = async () => {
    while (clock.timers === 0) await setImmediate();
  };

  await writeFile(join(directory, 'draft'), 'one');
  await noticed();
  clock.advance(199);
  watched.readSoon();
  clock.advance(199);
  assert.equal(reads, 0, 'a change is followed by another');
  clock.advance(1);
  await setImmediate();
  assert.equal(reads, 1);

  await rename(join(directory, 'draft'), join(directory, 'file'));
  await noticed();
  clock.advance(200);
  await setImmediate();
  assert.equal(reads, 1, 'the first read has not ended');
  slow.resolve();
  await setImmediate();
  assert.equal(reads, 2);

  watched.readSoon();
  watched.close();
  assert.equal(clock.timers, 0);
});

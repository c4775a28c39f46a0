import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { eventually } from '../../../worlds/host/eventually.ts';
import { ManualClock } from '../../base/testing/manual-clock.ts';
import { silentLog } from '../../base/testing/silent-log.ts';
import { HashTracking } from '../../engine/changes/hash-tracking.ts';
import { InMemoryPool } from '../../engine/testing/in-memory-pool.ts';
import { newMoveKey } from './move-key.ts';
import { Mover } from './mover.ts';
import { threadName } from './mover-thread.ts';

const size = 2 * 1024 ** 2;
const moveUid = 'b1f6c2d4-0000-4000-8000-000000000001';
const { signal } = new AbortController();

/** Volumes whose devices are files. */
class PoolOfFiles extends InMemoryPool {
  readonly #directory: string;

  constructor(directory: string) {
    super('files', BigInt(10 * size));
    this.#directory = directory;
  }

  override get(id: string) {
    const volume = super.get(id);
    return volume && { ...volume, devicePath: join(this.#directory, id) };
  }
}

async function moving(t: TestContext) {
  const directory = await mkdtemp(join(tmpdir(), 'mover-'));
  const pool = new PoolOfFiles(directory);
  for (const id of ['data', 'copy']) {
    await pool.create({ id, sizeBytes: BigInt(size), tags: ['moorage.dev/filesystem=ext4'] });
    await writeFile(join(directory, id), randomBytes(size));
  }
  const clock = new ManualClock();
  const mover = new Mover({ port: 0, clock, log: silentLog });
  t.after(async () => {
    await mover.stop();
    await rm(directory, { recursive: true });
  });
  const [source, target] = [await newMoveKey(Date.now()), await newMoveKey(Date.now())];
  const volume = () => {
    const found = pool.get('data');
    if (!found) throw new Error('no volume');
    return found;
  };
  const offer = () =>
    mover.offer(moveUid, {
      ...{ tracking: new HashTracking(volume), tags: () => volume().tags },
      ...{ own: source, peerCertificate: target.cert },
    });
  const pull = (port: number, stop = signal) =>
    mover.pull(
      {
        ...{ moveUid, host: '127.0.0.1', port, own: target, peerCertificate: source.cert, kind: 'next' },
        ...{ pool, volumeId: 'copy' },
      },
      stop,
    );
  const isCopied = async () =>
    (await readFile(join(directory, 'data'))).equals(await readFile(join(directory, 'copy')));
  return { mover, pool, clock, offer, pull, isCopied };
}

/** This process has others too, which come and go. */
const moverThreads = () =>
  readdirSync('/proc/self/task').filter((id) => {
    try {
      return readFileSync(`/proc/self/task/${id}/comm`, 'utf8').trim() === threadName;
    } catch {
      return false; // it has ended
    }
  }).length;

test('a round is pulled in a thread, which ends after a minute without work', async (t) => {
  const { pool, clock, offer, pull, isCopied } = await moving(t);
  const offered = await offer();
  const { checkpoint, sentBytes } = await pull(offered.port);
  assert.equal(sentBytes, size);
  assert.ok(await isCopied());
  const tags = pool.get('copy')?.tags ?? [];
  assert.ok(tags.includes(`moorage.dev/position=${checkpoint}::0`) && tags.includes('moorage.dev/filesystem=ext4'));

  assert.equal(moverThreads(), 1);
  clock.advance(60_000);
  assert.equal((await pull(offered.port)).sentBytes, 0); // an offered volume keeps the thread
  await offered[Symbol.asyncDispose]();
  clock.advance(60_000);
  await eventually('the thread has ended', async () => moverThreads() === 0);
  const again = await offer();
  assert.equal((await pull(again.port)).sentBytes, size, 'another thread starts, and knows nothing of the copy');
});

test('a volume that is no longer offered cannot be pulled, and a caller can leave', async (t) => {
  const { offer, pull } = await moving(t);
  const offered = await offer();
  const leaving = new AbortController();
  const pulling = pull(offered.port, leaving.signal);
  leaving.abort(new Error('the agent stops'));
  await assert.rejects(pulling, /the agent stops/);
  await offered[Symbol.asyncDispose]();
  await assert.rejects(pull(offered.port), { name: 'PeerLost', code: 'Unavailable' });
});

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { runProgram } from '../base/command.ts';
import { moorage as program } from '../commands.ts';
import { createdTag } from '../engine/names-and-tags.ts';
import type { Erasure, NewSnapshot, NewVolume, Volume } from '../engine/pool.ts';
import { InMemoryPool } from '../engine/testing/in-memory-pool.ts';
import { servingEngine } from '../lvmd/testing/serving-engine.ts';
import { exitCodeOf } from './exit-code.ts';

const gibibyte = 1024n ** 3n;

/** Marks what it creates, as pools on disks do. */
class TaggingPool extends InMemoryPool {
  override create(wanted: NewVolume): Promise<Volume> {
    return super.create({ ...wanted, tags: [...wanted.tags, createdTag] });
  }

  override snapshot(source: string, wanted: NewSnapshot): Promise<Volume> {
    return super.snapshot(source, { ...wanted, tags: [...wanted.tags, createdTag] });
  }
}

async function start(t: TestContext) {
  const ssd = new TaggingPool('ssd', 100n * gibibyte);
  const hdd = new TaggingPool('hdd', 1000n * gibibyte);
  const { socketPath, pools } = await servingEngine(t, [ssd, hdd]);
  const abort = new AbortController();
  let screen = '';
  /** The output of the command; throws its error. */
  const moorage = async (...words: string[]) => {
    let printed = '';
    await runProgram(program, 'moorage', [...words, '--socket', socketPath], {
      env: {},
      version: '',
      signal: abort.signal,
      print: (text) => {
        printed += `${text}\n`;
      },
      screen: {
        isTerminal: false,
        write: (text) => {
          screen += text;
        },
      },
    });
    return printed;
  };
  return { ssd, hdd, pools, moorage, abort, screen: () => screen, socketPath };
}

test('a volume is created, listed, grown, copied and removed', async (t) => {
  const { moorage } = await start(t);
  assert.equal(await moorage('volume', 'ls'), 'There are no volumes.\n');
  await moorage('volume', 'create', 'data', '10Gi');
  await moorage('volume', 'create', 'more', '1.5Gi', '--device-class', 'hdd');
  await moorage('volume', 'grow', 'data', '20Gi');
  await moorage('volume', 'snapshot', 'data', 'copy');
  assert.equal(
    await moorage('volume', 'ls'),
    [
      'NAME  CLASS  SIZE     ACCESS  ORIGIN  DEVICE',
      'data  ssd    20 GiB   rw              /dev/ssd/data',
      'copy  ssd    20 GiB   rw      data    /dev/ssd/copy',
      'more  hdd    1.5 GiB  rw              /dev/hdd/more',
      '',
    ].join('\n'),
  );
  assert.equal(await moorage('volume', 'rm', 'data', 'copy'), 'volume data removed\nvolume copy removed\n');
  assert.match(await moorage('volume', 'ls'), /^NAME.*\nmore .*\n$/);
});

test('programs get JSON, with sizes in bytes', async (t) => {
  const { moorage } = await start(t);
  const created = JSON.parse(
    await moorage('volume', 'create', 'data', '1Gi', '--tags', 'a,moorage.dev/claim=db/x', '-ojson'),
  );
  assert.deepEqual(created, {
    name: 'data',
    deviceClass: 'ssd',
    sizeBytes: 1_073_741_824,
    device: '/dev/ssd/data',
    access: 'rw',
    claim: 'db/x',
    tags: ['a', 'moorage.dev/claim=db/x', 'moorage.dev/created'],
    attributes: '-wi-a-----',
  });
  assert.deepEqual(JSON.parse(await moorage('volume', 'ls', '-ojson')), [created]);
  assert.deepEqual(JSON.parse(await moorage('pool', 'ls', '-ojson'))[0], {
    deviceClass: 'ssd',
    isDefault: true,
    sizeBytes: 107_374_182_400,
    freeBytes: 106_300_440_576,
    volumes: 1,
    erasures: [],
  });
});

test('pools show their free space', async (t) => {
  const { moorage, hdd } = await start(t);
  const thin = { dataPercent: 12.5, metadataPercent: 3, sizeBytes: gibibyte, overprovisionBytes: 5n * gibibyte };
  hdd.capacity = () => ({ sizeBytes: gibibyte, freeBytes: 5n * gibibyte, thin });
  assert.equal(
    await moorage('pool', 'ls'),
    [
      'CLASS  DEFAULT  SIZE     FREE     VOLUMES  DATA   METADATA',
      'ssd    yes      100 GiB  100 GiB  0',
      'hdd             1 GiB    5 GiB    0        12.5%  3%',
      '',
    ].join('\n'),
  );
});

test('a class that waits for its disks shows the reason', async (t) => {
  const { moorage, pools } = await start(t);
  pools.become({ pools: [], defaultClass: 'ssd', unavailable: new Map([['ssd', new Error('no volume group vg0')]]) });
  assert.match(await moorage('pool', 'ls'), /^ssd +- .*\n\nssd cannot be served now: no volume group vg0$/m);
  await assert.rejects(moorage('volume', 'create', 'data', '1Gi'), { code: 'Unavailable' });
});

test('a volume of a claim is not removed by mistake', async (t) => {
  const { moorage, ssd } = await start(t);
  await moorage('volume', 'create', 'data', '1Gi', '--tags', 'moorage.dev/claim=db/x');
  await assert.rejects(moorage('volume', 'rm', 'data'), {
    message: /belongs to claim db\/x; delete the claim instead/,
  });
  assert.equal(ssd.list().length, 1);
  await moorage('volume', 'rm', 'data', '--force');
  assert.equal(ssd.list().length, 0);
});

test('a volume that others created is not removed by mistake', async (t) => {
  const { moorage, ssd } = await start(t);
  await InMemoryPool.prototype.create.call(ssd, { id: 'vm-disk', sizeBytes: gibibyte, tags: [] });
  await assert.rejects(moorage('volume', 'rm', 'vm-disk'), { message: /was not created by Moorage; pass --force/ });
  assert.equal(ssd.list().length, 1);
  await moorage('volume', 'rm', 'vm-disk', '--force');
  assert.equal(ssd.list().length, 0);
});

test('no volume is removed if one of the names is wrong', async (t) => {
  const { moorage, ssd } = await start(t);
  await moorage('volume', 'create', 'data', '1Gi');
  await assert.rejects(moorage('volume', 'rm', 'data', 'dada'), { message: /no volume dada .* see moorage volume ls/ });
  assert.equal(ssd.list().length, 1);
});

/** A pool whose removals take until the test ends them. */
function erasing(pool: InMemoryPool) {
  const begun = Promise.withResolvers<void>();
  const done = Promise.withResolvers<void>();
  const erasures: Erasure[] = [];
  const remove = pool.remove.bind(pool);
  pool.erasures = () => erasures;
  pool.remove = async (id, signal?: AbortSignal) => {
    const removal = await remove(id);
    erasures.push({ id, doneBytes: gibibyte, totalBytes: 4n * gibibyte });
    begun.resolve();
    const left = Promise.withResolvers<never>();
    signal?.addEventListener('abort', () => left.reject(signal.reason));
    await Promise.race([done.promise, left.promise]);
    erasures.length = 0;
    return removal;
  };
  return { begun: begun.promise, end: () => done.resolve() };
}

test('a removal that erases shows its progress and ends when the volume is gone', async (t) => {
  const { moorage, ssd, screen } = await start(t);
  await moorage('volume', 'create', 'data', '1Gi');
  const { begun, end } = erasing(ssd);
  const removal = moorage('volume', 'rm', 'data');
  await begun;
  assert.match(await moorage('pool', 'ls'), /^CLASS .* ERASING\nssd .* data$/m);
  while (!screen().includes('%')) await new Promise((resolve) => setImmediate(resolve));
  end();
  assert.equal(await removal, 'volume data removed\n');
  assert.equal(screen(), 'erasing data: 25% of 4 GiB\n');
});

test('a user who interrupts an erasure learns that it continues', async (t) => {
  const { moorage, ssd, abort } = await start(t);
  await moorage('volume', 'create', 'data', '1Gi');
  const { begun } = erasing(ssd);
  const removal = moorage('volume', 'rm', 'data');
  await begun;
  abort.abort();
  const error = await removal.catch((error: unknown) => error);
  assert.match(String(error), /an erasure that has started continues/);
  assert.equal(exitCodeOf(error), 130);
});

test('exit codes differ for an invalid command line, a refusal and a missing engine', async (t) => {
  const { moorage, socketPath } = await start(t);
  const codeOf = (...words: string[]) => moorage(...words).then(() => 0, exitCodeOf);
  assert.equal(await codeOf('volume', 'create', 'data'), 2);
  assert.equal(await codeOf('volume', 'create', 'data', 'much'), 2);
  assert.equal(await codeOf('volume', 'create', 'data', '0'), 2);
  assert.equal(await codeOf('volume', 'create', 'data', '1Ti'), 1);
  assert.equal(await codeOf('volume', 'create', 'a;b', '1Gi'), 1);
  const elsewhere = `${socketPath}.not`;
  const lost = runProgram(program, 'moorage', ['pool', 'ls', '--socket', elsewhere], {
    env: {},
    version: '',
    signal: new AbortController().signal,
    print: () => undefined,
    screen: { isTerminal: false, write: () => undefined },
  });
  const error = await lost.catch((error: unknown) => error);
  assert.equal(exitCodeOf(error), 3);
  assert.match(
    String(error),
    new RegExp(`there is no ${join(elsewhere)}; start one with moorage lvmd or moorage node`),
  );
});

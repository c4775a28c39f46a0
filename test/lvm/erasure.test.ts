import assert from 'node:assert/strict';
import { open } from 'node:fs/promises';
import { test } from 'node:test';
import { type Run, run } from '../../src/base/exec.ts';
import { Eraser } from '../../src/engine/erase/eraser.ts';
import {
  adoptedTag,
  createdTag,
  emptyingTag,
  erasingTag,
  filesystemTag,
  unusedTag,
} from '../../src/engine/names-and-tags.ts';
import type { Volume } from '../../src/engine/pool.ts';
import { flushesOf } from '../../worlds/lvm/flushes-of.ts';
import { command, disks } from '../../worlds/lvm/inside.ts';
import { type EngineOfTest, engineOfTest } from './engine-of-test.ts';
import { Engine, mebibyte, signal, thickClass } from './lvm-pools.ts';
import { discardingGroup, isOnDisk, pausingDiscards, secret, writeSecret } from './secrets.ts';
import { becomeGhost } from './thin-pools.ts';

/** Whether the secret can still be read on the disk of all volumes. */
function onDisk(): Promise<boolean> {
  const [disk = ''] = disks();
  return isOnDisk(disk, Number(320n * mebibyte)); // the thin pool, and what follows it
}

const dataPercent = async (vg: string) =>
  Number(await command('lvs', '--noheadings', '-o', 'data_percent', `${vg}/pool`));

/** Each kind in turn, on an existing engine. */
async function leavesNothing({ engine, volumeGroup }: EngineOfTest): Promise<void> {
  for (const kind of ['thick', 'thin']) {
    const pool = engine.pools.get(kind);
    const { devicePath } = await pool.create({ id: kind, sizeBytes: 20n * mebibyte, tags: [] }, signal);
    await writeSecret(devicePath, [0, 10, 19]);
    assert.equal(await onDisk(), true);
    await pool.remove(kind, signal);
    assert.deepEqual([pool.list(), pool.erasures()], [[], []]);
    assert.equal(await onDisk(), false);
    assert.equal(await command('lvs', '--noheadings', '-o', 'lv_name', volumeGroup), 'pool');
  }
}

test('zero leaves no data of a thick or thin volume on the disk, and rejects a volume in use before marking it', async (t) => {
  const opened = await engineOfTest(t, 'erase: zero');
  await leavesNothing(opened);
  for (const kind of ['thick', 'thin']) {
    const pool = opened.engine.pools.get(kind);
    const { devicePath } = await pool.create({ id: kind, sizeBytes: 4n * mebibyte, tags: [] }, signal);
    {
      await using _ = await open(devicePath, 'r');
      await assert.rejects(pool.remove(kind, signal), { name: 'VolumeInUse' });
    }
    assert.ok(pool.get(kind));
    const tags = await command('lvs', '--noheadings', '-o', 'lv_tags', opened.volumeGroup);
    assert.doesNotMatch(tags, new RegExp(erasingTag));
  }
});

test("a volume's own policy comes before that of its class", async (t) => {
  const { engine } = await engineOfTest(t, 'erase: none');
  for (const kind of ['thick', 'thin']) {
    const pool = engine.pools.get(kind);
    const { devicePath } = await pool.create({ id: kind, sizeBytes: 20n * mebibyte, tags: [] }, signal);
    await writeSecret(devicePath, [0, 19]);
    await pool.addTags(kind, ['moorage.dev/on-removal=zero'], signal);
    assert.equal(await pool.remove(kind, signal), 'erased');
    assert.equal(await onDisk(), false);
  }
});

test('shred leaves no data on the disk, and a thin volume of any size takes no more space meanwhile', async (t) => {
  const opened = await engineOfTest(t, 'erase: shred, erase-passes: 2');
  await leavesNothing(opened);
  const pool = opened.engine.pools.get('thin');
  const { devicePath } = await pool.create({ id: 'large', sizeBytes: 512n * mebibyte, tags: [] }, signal);
  await writeSecret(devicePath, [0, 500]);
  await pool.remove('large', signal); // twice the size of the pool
  assert.equal(await dataPercent(opened.volumeGroup), 0);
  assert.equal(await onDisk(), false);
});

test('a class that overwrites makes no snapshots, because shared blocks cannot be erased', async (t) => {
  const { engine, restart } = await engineOfTest(t, 'erase: none');
  const before = engine.pools.get('thin');
  await before.create({ id: 'data', sizeBytes: 8n * mebibyte, tags: [] }, signal);
  await before.snapshot('data', { id: 'copy', tags: [], access: 'ro' }, signal);

  const pool = (await restart('erase: zero')).pools.get('thin');
  const wanted = { id: 'more', tags: [], access: 'ro' } as const;
  await assert.rejects(pool.snapshot('data', wanted, signal), { code: 'Unimplemented', message: /erase: zero/ });
  await assert.rejects(pool.remove('copy', signal), { name: 'EraseUnsupported' });
  assert.ok(pool.get('copy'));

  const discarding = (await restart('erase: discard')).pools.get('thin');
  await discarding.remove('copy', signal); // although it is read-only
  assert.equal(discarding.get('copy'), undefined);
});

test('a range counts as clean only after the disk was flushed', async (t) => {
  const [disk = ''] = disks();
  const { engine } = await engineOfTest(t);
  let flushesBefore = Number.POSITIVE_INFINITY;
  const counting: Run = async (argv, options) => {
    const done = await run(argv, options);
    flushesBefore = await flushesOf(disk);
    return done;
  };
  for (const [kind, policy] of [
    ['thick', { kind: 'zero' }],
    ['thin', { kind: 'zero' }],
    ['thin', { kind: 'discard' }],
  ] as const) {
    const pool = engine.pools.get(kind);
    const { devicePath: path } = await pool.create(
      { id: `${kind}-${policy.kind}`, sizeBytes: 20n * mebibyte, tags: [] },
      signal,
    );
    await command('dd', 'if=/dev/urandom', `of=${path}`, 'bs=1M', 'count=20', 'conv=fsync', 'status=none');
    const wasFlushed: boolean[] = [];
    const target = { kind, path, sizeBytes: 20n * mebibyte, mustBeSame: async () => undefined };
    const onClean = async () => void wasFlushed.push((await flushesOf(disk)) > flushesBefore);
    await new Eraser(counting).erase(target, policy, 0n, onClean, signal);
    assert.deepEqual({ kind, policy, wasFlushed }, { kind, policy, wasFlushed: [true] });
  }
});

test('an erasure interrupted by a crash continues, and its space is not reused before it ends', async (t) => {
  let killed = false;
  const reached = Promise.withResolvers<void>();
  const dies = Promise.withResolvers<never>();
  dies.promise.catch(() => undefined);
  const dying: Run = async (argv, options) => {
    if (argv[0] === 'blkdiscard' && !killed) {
      reached.resolve();
      await dies.promise;
    }
    return run(argv, options);
  };
  const { engine, volumeGroup, restart } = await engineOfTest(t, 'erase: zero', dying);
  const pool = engine.pools.get('thick');
  const { devicePath } = await pool.create({ id: 'data', sizeBytes: 20n * mebibyte, tags: [] }, signal);
  await writeSecret(devicePath, [0, 19]);
  const { freeBytes } = pool.capacity();
  const leaving = new AbortController();
  const removal = pool.remove('data', leaving.signal);
  await reached.promise;
  leaving.abort(new Error('left'));
  await assert.rejects(removal, /left/);
  assert.match(await command('lvs', '--noheadings', '-o', 'lv_tags', `${volumeGroup}/data`), new RegExp(erasingTag));
  assert.equal(pool.get('data'), undefined);
  assert.equal(pool.capacity().freeBytes, freeBytes);
  await assert.rejects(pool.create({ id: 'data', sizeBytes: mebibyte, tags: [] }, signal), {
    name: 'VolumeBeingErased',
  });
  await assert.rejects(pool.grow('data', 40n * mebibyte, signal), { name: 'VolumeBeingErased' });
  killed = true;
  dies.reject(new Error('killed'));

  const again = (await restart()).pools.get('thick'); // with erase: none, but the marked volume must still be erased
  await again.remove('data', signal);
  assert.equal(await onDisk(), false);
  assert.equal(again.capacity().freeBytes, freeBytes + 20n * mebibyte);
});

/** Fails unless all of the device reads as zeros. */
async function mustBeZero({ devicePath, sizeBytes }: Volume): Promise<void> {
  await command('sh', '-c', `blockdev --flushbufs ${devicePath} && cmp --bytes=${sizeBytes} ${devicePath} /dev/zero`);
}

test('a volume is emptied in place, whoever created it, unless it is in use', async (t) => {
  const { engine, volumeGroup } = await engineOfTest(t);
  const owner = 'moorage.dev/local-pv-uid=1';
  const uuids = () => command('lvs', '--noheadings', '-o', 'lv_uuid', `${volumeGroup}/thick`, `${volumeGroup}/thin`);
  await command('lvcreate', '--yes', '--name', 'thick', '--size', '20m', volumeGroup);
  await command('lvcreate', '--yes', '--name', 'thin', '--virtualsize', '20m', '--thinpool', 'pool', volumeGroup);
  const before = await uuids();
  for (const kind of ['thick', 'thin']) {
    const pool = engine.pools.get(kind);
    await pool.refresh(signal);
    const { devicePath } = await pool.addTags(kind, [owner, adoptedTag, filesystemTag('ext4')], signal);
    await pool.grow(kind, 24n * mebibyte, signal);
    await writeSecret(devicePath, [0, 10, 23]);
    {
      await using _ = await open(devicePath, 'r');
      await assert.rejects(pool.empty(kind, { kind: 'zero' }, signal), { name: 'VolumeInUse' });
    }
    const emptied = await pool.empty(kind, { kind: 'zero' }, signal);
    assert.deepEqual(emptied.tags, [owner, createdTag, unusedTag]);
    assert.equal(emptied.sizeBytes, 24n * mebibyte);
    await mustBeZero(emptied);
    assert.equal(await onDisk(), false);
  }
  const thin = engine.pools.get('thin');
  await command(
    'dd',
    'if=/dev/urandom',
    `of=/dev/${volumeGroup}/thin`,
    'bs=1M',
    'count=24',
    'conv=fsync',
    'status=none',
  );
  await mustBeZero(await thin.empty('thin', { kind: 'discard' }, signal));
  assert.equal(await dataPercent(volumeGroup), 0);
  assert.equal(await uuids(), before);
});

test('an emptying interrupted by a crash continues, and the volume is not used before it ends', async (t) => {
  const reached = Promise.withResolvers<void>();
  const dies = Promise.withResolvers<never>();
  const mayGoOn = Promise.withResolvers<void>();
  let gate: Promise<void> = dies.promise;
  const gated: Run = async (argv, options) => {
    if (argv[0] === 'blkdiscard') {
      reached.resolve();
      await gate;
    }
    return run(argv, options);
  };
  const { engine, volumeGroup, restart } = await engineOfTest(t, 'erase: none', gated);
  const pool = engine.pools.get('thick');
  const { devicePath } = await pool.create({ id: 'data', sizeBytes: 20n * mebibyte, tags: [] }, signal);
  await writeSecret(devicePath, [0, 19]);
  const { freeBytes } = pool.capacity();
  const emptied = pool.empty('data', { kind: 'zero' }, signal);
  await reached.promise;
  assert.match(await command('lvs', '--noheadings', '-o', 'lv_tags', `${volumeGroup}/data`), new RegExp(emptyingTag));
  dies.reject(new Error('killed'));
  await assert.rejects(emptied, /killed/);
  await engine.stop();
  gate = mayGoOn.promise;

  const again = (await restart('erase: none')).pools.get('thick');
  assert.deepEqual([again.get('data'), again.erasures().length], [undefined, 1]);
  const removal = again.remove('data', signal);
  mayGoOn.resolve();
  assert.equal(await removal, 'removed'); // once it is empty
  assert.equal(await onDisk(), false);
  assert.equal(again.capacity().freeBytes, freeBytes + 20n * mebibyte);
});

test('discard is used if the disk supports it, and otherwise rejected before anything is marked', async (t) => {
  const { engine } = await engineOfTest(t, 'erase: discard');
  const thin = engine.pools.get('thin');
  const volume = await thin.create({ id: 'thin', sizeBytes: 20n * mebibyte, tags: [] }, signal);
  await writeSecret(volume.devicePath, [0]);
  await thin.remove('thin', signal);
  assert.deepEqual(thin.list(), []);

  const thick = engine.pools.get('thick');
  await thick.create({ id: 'thick', sizeBytes: 4n * mebibyte, tags: [] }, signal);
  await assert.rejects(thick.remove('thick', signal), {
    name: 'EraseUnsupported',
    message: /does not support discards/,
  });
  assert.ok(thick.get('thick'));

  const { vg, disk } = await discardingGroup(t, engine.pools.get('file'));
  const pool = await new Engine(t).open(thickClass(vg, { erase: { kind: 'discard' } }));
  const { devicePath } = await pool.create({ id: 'data', sizeBytes: 20n * mebibyte, tags: [] }, signal);
  await writeSecret(devicePath, [0, 19]);
  assert.equal(await isOnDisk(disk), true);
  await pool.remove('data', signal);
  assert.equal(await isOnDisk(disk), false);
});

test('an erasure applies to the volume that was marked, whatever gets its name', async (t) => {
  const discards = pausingDiscards();
  const { engine, volumeGroup } = await engineOfTest(t, 'erase: zero', discards.run);
  const pool = engine.pools.get('thick');
  const { devicePath } = await pool.create({ id: 'data', sizeBytes: 20n * mebibyte, tags: [] }, signal);
  const removal = pool.remove('data', signal);
  await discards.reached;
  await command('lvrename', volumeGroup, 'data', 'old');
  await command('lvcreate', '--yes', '--name', 'data', '--size', '20m', volumeGroup);
  await writeSecret(devicePath, [0, 10]);
  discards.goOn();
  await assert.rejects(removal, { name: 'ErasureCancelled', code: 'Aborted' });
  for (const at of [0, 10]) {
    const found = await command('sh', '-c', `dd if=${devicePath} bs=1M skip=${at} count=1 status=none | head -c 14`);
    assert.equal(found, secret);
  }
});

test('an inactive volume is activated to be erased; a ghost, which has no data, is just removed', async (t) => {
  const { engine, volumeGroup, restart } = await engineOfTest(t, 'erase: discard');
  const before = engine.pools.get('thin');
  for (const id of ['ghost', 'real']) await before.create({ id, sizeBytes: 8n * mebibyte, tags: [] }, signal);
  await becomeGhost(volumeGroup, 'ghost');

  const pool = (await restart('erase: discard')).pools.get('thin');
  await command('lvchange', '--activate', 'n', `${volumeGroup}/real`);
  assert.equal(await pool.remove('ghost', signal), 'removed');
  assert.equal(await pool.remove('real', signal), 'erased');
  assert.equal(await command('lvs', '--noheadings', '-o', 'lv_name', volumeGroup), 'pool');
});

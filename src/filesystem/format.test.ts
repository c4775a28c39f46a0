import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Run } from '../base/exec.ts';
import { adoptedTag, createdTag, filesystemTag, rawTag } from '../engine/names-and-tags.ts';
import type { Pool, Volume } from '../engine/pool.ts';
import { ext4 } from './ext4.ts';
import { filesystems } from './filesystem.ts';
import { decideFormat, Formatter, filesystemUuid } from './format.ts';
import { type Probe, type ProbeDevice, type ReadSuperblock, superblockReader } from './probe.ts';
import { xfs } from './xfs.ts';

const signal = new AbortController().signal;
const fresh: Volume = {
  id: 'v',
  sizeBytes: 1n,
  devicePath: '/dev/v',
  tags: ['claim=a'],
  readOnly: false,
  attr: '-wi-a-----',
};
const formatted: Volume = { ...fresh, tags: [...fresh.tags, filesystemTag('ext4')] };
const empty: Probe = { kind: 'empty' };
const unknown: Probe = { kind: 'unknown', reason: 'I/O error' };
const holds = (filesystem: string): Probe => ({ kind: 'found', filesystem, uuid: 'u' });

test('a volume is formatted only if it never was and its device is certainly empty', () => {
  assert.equal(decideFormat(fresh, empty, ext4), 'format');
  assert.throws(() => decideFormat(formatted, empty, ext4), {
    name: 'FilesystemVanished',
    code: 'FailedPrecondition',
  });
  for (const volume of [fresh, formatted]) {
    assert.equal(decideFormat(volume, holds('ext4'), ext4), 'mount');
    assert.throws(() => decideFormat(volume, unknown, ext4), { name: 'DeviceUnreadable' });
    for (const other of ['xfs', 'crypto_LUKS', 'LVM2_member', 'gpt', 'swap']) {
      assert.throws(() => decideFormat(volume, holds(other), ext4), { name: 'FilesystemMismatch' });
    }
  }
});

test('a volume that was published raw is never formatted, but a filesystem that its user created is mounted', () => {
  const raw: Volume = { ...fresh, tags: [createdTag, rawTag] };
  assert.throws(() => decideFormat(raw, empty, ext4), { name: 'UsedRaw', code: 'FailedPrecondition' });
  assert.equal(decideFormat(raw, holds('ext4'), ext4), 'mount');
});

test('an adopted volume is never formatted, but a filesystem that is on it is mounted', () => {
  const adopted: Volume = { ...fresh, tags: [adoptedTag] };
  assert.throws(() => decideFormat(adopted, empty, ext4), /create ext4 on it by hand/);
  assert.equal(decideFormat(adopted, holds('ext4'), ext4), 'mount');
});

test('what an earlier volume left on the disk is never mistaken for the filesystem of a new one', () => {
  const cut: Volume = { ...fresh, tags: [createdTag] };
  for (const left of ['ext4', 'xfs', 'swap']) {
    assert.throws(() => decideFormat(cut, holds(left), ext4), {
      name: 'FilesystemForeign',
      code: 'FailedPrecondition',
    });
  }
  const own: Probe = { kind: 'found', filesystem: 'ext4', uuid: filesystemUuid('v') };
  assert.equal(decideFormat(cut, own, ext4), 'mount'); // a crash after mkfs, before the tag
  assert.throws(() => decideFormat(cut, own, xfs), { name: 'FilesystemMismatch' });
  assert.equal(decideFormat({ ...cut, tags: [createdTag, filesystemTag('ext4')] }, holds('ext4'), ext4), 'mount');
});

test('an interrupted format is repeated only if it is certainly our own', async () => {
  const cut: Volume = { ...fresh, tags: [createdTag] };
  const own: Probe = { kind: 'found', filesystem: 'xfs', uuid: filesystemUuid('v') };
  const unfinished = { sizeBytes: 1n, isUnfinished: true };
  assert.equal(decideFormat(cut, own, xfs, unfinished), 'format again');
  assert.equal(decideFormat(fresh, own, xfs, unfinished), 'format again');
  assert.equal(decideFormat(cut, own, xfs, { ...unfinished, isUnfinished: false }), 'mount');
  assert.equal(decideFormat(fresh, holds('xfs'), xfs, unfinished), 'mount', 'it may be theirs');
  assert.throws(() => decideFormat(cut, holds('xfs'), xfs, unfinished), { name: 'FilesystemForeign' });
  const tagged: Volume = { ...cut, tags: [createdTag, filesystemTag('xfs')] };
  assert.equal(decideFormat(tagged, own, xfs, unfinished), 'mount', 'it was finished once');

  const superblock: ReadSuperblock = async () => unfinished;
  const { pool, volume, steps, formatter } = bench(cut, own, { superblock });
  await formatter.ensure(pool, volume, xfs, signal);
  assert.match(steps[1] ?? '', /^mkfs.xfs -f /);
  assert.equal(steps[2], 'tag moorage.dev/filesystem=xfs');
});

test('a filesystem has the UUID of its volume', () => {
  assert.equal(filesystemUuid('v'), filesystemUuid('v'));
  assert.notEqual(filesystemUuid('v'), filesystemUuid('w'));
  assert.match(filesystemUuid('v'), /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

interface Trial {
  readonly mkfsFails?: boolean;
  readonly superblock?: ReadSuperblock;
}

/** A pool with one volume, and a record of all commands. */
function bench(volume: Volume, probe: Probe, { mkfsFails = false, superblock = async () => undefined }: Trial = {}) {
  const steps: string[] = [];
  const pool: Pick<Pool, 'addTags'> = {
    addTags: async (_id, tags) => {
      steps.push(`tag ${tags.join()}`);
      return volume;
    },
  };
  const run: Run = async ([program, ...args]) => {
    steps.push([program, ...args].join(' '));
    if (mkfsFails) throw new Error('no');
    return { stdout: '', stderr: '' };
  };
  const asked: ProbeDevice = async () => {
    steps.push('probe');
    return probe;
  };
  return { pool, volume, steps, formatter: new Formatter({ run, probe: asked, superblock }) };
}

test('a new volume is formatted, and only then tagged', async () => {
  for (const filesystem of filesystems) {
    const { pool, steps, formatter } = bench(fresh, empty);
    const volume = await formatter.ensure(pool, fresh, filesystem, signal);
    const [first, second, ...others] = steps;
    assert.equal(first, 'probe');
    assert.match(second ?? '', new RegExp(`^mkfs.${filesystem.name} .*${filesystemUuid('v')}.* /dev/v$`));
    assert.deepEqual(others, [`tag moorage.dev/filesystem=${filesystem.name}`]);
    assert.ok(volume.tags.includes(filesystemTag(filesystem.name)));
  }
});

test('a failed format leaves no tag, so that it can be retried', async () => {
  const { pool, volume, steps, formatter } = bench(fresh, empty, { mkfsFails: true });
  await assert.rejects(formatter.ensure(pool, volume, ext4, signal), /no/);
  assert.equal(steps.filter((step) => step.startsWith('tag')).length, 0);
});

test('a filesystem without a tag is kept and gets its tag', async () => {
  const { pool, volume, steps, formatter } = bench(fresh, holds('xfs'));
  await formatter.ensure(pool, volume, xfs, signal);
  assert.deepEqual(steps, ['probe', 'tag moorage.dev/filesystem=xfs']);
});

test('a formatted volume is recognised by its superblock, without a command', async () => {
  const superblock: ReadSuperblock = async () => ({ sizeBytes: 1n, isUnfinished: false });
  const { pool, volume, steps, formatter } = bench(formatted, holds('ext4'), { superblock });
  assert.equal(await formatter.ensure(pool, volume, ext4, signal), formatted);
  assert.deepEqual(steps, []);
});

test('the superblock is not used for a volume that was formatted differently or not at all', async () => {
  const superblock: ReadSuperblock = async () => ({ sizeBytes: 1n, isUnfinished: false });
  for (const volume of [fresh, { ...fresh, tags: [filesystemTag('xfs')] }]) {
    const { pool, steps, formatter } = bench(volume, holds('btrfs'), { superblock });
    await assert.rejects(formatter.ensure(pool, volume, ext4, signal), { name: 'FilesystemMismatch' });
    assert.deepEqual(steps, ['probe']);
  }
});

test('a volume whose superblock cannot be read is not changed', async () => {
  const superblock: ReadSuperblock = async () => Promise.reject(new Error('EIO'));
  const { pool, volume, steps, formatter } = bench(formatted, holds('ext4'), { superblock });
  await assert.rejects(formatter.ensure(pool, volume, ext4, signal), { name: 'DeviceUnreadable', message: /EIO/ });
  assert.deepEqual(steps, []);
});

test('nothing is decided from a superblock while a hung disk blocks reads', async () => {
  const never = new AbortController();
  const hung = Promise.withResolvers<Uint8Array>();
  const superblock = superblockReader(() => hung.promise);
  const asked = superblock(fresh.devicePath, xfs, never.signal);
  const own: Probe = { kind: 'found', filesystem: 'xfs', uuid: filesystemUuid('v') };

  const half = bench({ ...fresh, tags: [createdTag] }, own, { superblock }); // unfinished or complete: unknown
  await assert.rejects(half.formatter.ensure(half.pool, half.volume, xfs, signal), {
    name: 'SuperblockBusy',
    code: 'Unavailable',
  });
  assert.deepEqual(half.steps, ['probe']);

  const whole = bench({ ...fresh, tags: [createdTag, filesystemTag('xfs')] }, own, { superblock });
  await whole.formatter.ensure(whole.pool, whole.volume, xfs, signal); // its tag shows that mkfs finished
  assert.deepEqual(whole.steps, ['probe']);

  never.abort(new Error('deadline'));
  await assert.rejects(asked, /deadline/);
});

test('mkfs options come after our own, and are merged with ours for ext4', async () => {
  const options = ['-i', '8192', '-E', 'stride=16'];
  const { pool, volume, steps, formatter } = bench(fresh, empty);
  await formatter.ensure(pool, volume, ext4, signal, options);
  const said = `-E nodiscard,lazy_itable_init=1,lazy_journal_init=1,stride=16 -U ${filesystemUuid('v')} -i 8192`;
  assert.equal(steps[1], `mkfs.ext4 -q -b 4096 -m 0 ${said} /dev/v`);
});

test('a refusal runs no command and sets no tag', async () => {
  for (const [volume, probe] of [
    [formatted, empty],
    [fresh, unknown],
    [fresh, holds('btrfs')],
  ] as const) {
    const { pool, steps, formatter } = bench(volume, probe);
    await assert.rejects(formatter.ensure(pool, volume, ext4, signal), { code: 'FailedPrecondition' });
    assert.deepEqual(steps, ['probe']);
  }
});

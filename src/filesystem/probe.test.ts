import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Command, CommandFailed, CommandTimedOut, type Run } from '../base/exec.ts';
import { blkid, parseBlkid, superblockReader } from './probe.ts';
import { xfs } from './xfs.ts';

const signal = new AbortController().signal;
const exits =
  (exitCode: number, stderr = ''): Run =>
  (command) =>
    Promise.reject(new CommandFailed(command, { exitCode, signal: null, stdout: '', stderr }));

async function device(content: Uint8Array) {
  const directory = await mkdtempDisposable(join(tmpdir(), 'moorage-probe-'));
  const path = join(directory.path, 'device');
  writeFileSync(path, content);
  return { path, [Symbol.asyncDispose]: () => directory.remove() };
}

test('what blkid reports is found, whether a filesystem, encryption or a partition table', () => {
  assert.deepEqual(parseBlkid('DEVNAME=/dev/x\nUUID=1-2\nTYPE=ext4\nUSAGE=filesystem\n'), {
    kind: 'found',
    filesystem: 'ext4',
    uuid: '1-2',
  });
  assert.deepEqual(parseBlkid('PTTYPE=gpt\nPTUUID=3\n'), { kind: 'found', filesystem: 'gpt', uuid: '3' });
  assert.equal(parseBlkid('DEVNAME=/dev/x\n').kind, 'unknown');
});

test('a device without signatures that reads as zeros is empty', async () => {
  await using zeros = await device(new Uint8Array(8192));
  assert.deepEqual(await blkid(exits(2))(zeros.path, signal), { kind: 'empty' });
});

test('a device without signatures that cannot be read is unknown', async () => {
  const probe = await blkid(exits(2))('/dev/no-such-device', signal);
  assert.equal(probe.kind, 'unknown');
});

test('a device without signatures that holds data is unknown', async () => {
  await using scribbled = await device(new Uint8Array(8192).fill(7, 4000, 4001));
  assert.equal((await blkid(exits(2))(scribbled.path, signal)).kind, 'unknown');
});

test('a device that is too short is unknown', async () => {
  await using short = await device(new Uint8Array(100));
  assert.equal((await blkid(exits(2))(short.path, signal)).kind, 'unknown');
});

test('a probe that prints an error is unknown, even if it finds nothing', async () => {
  await using zeros = await device(new Uint8Array(8192));
  assert.equal((await blkid(exits(2, 'sh: 1: Cannot fork'))(zeros.path, signal)).kind, 'unknown');
});

test('any other exit of blkid is unknown', async () => {
  await using zeros = await device(new Uint8Array(8192));
  for (const exitCode of [1, 4, 8, 127])
    assert.equal((await blkid(exits(exitCode))(zeros.path, signal)).kind, 'unknown');
});

test('a probe that times out is an error', async () => {
  const hangs: Run = (command: Command) => Promise.reject(new CommandTimedOut(command, 1));
  await assert.rejects(blkid(hangs)('/dev/null', signal), CommandTimedOut);
});

/** What is in it is not of interest here. */
const block = new Uint8Array(1024);

test('hung disks delay only their own readers', async () => {
  const leaving = new AbortController();
  const hanging = Promise.withResolvers<Uint8Array>();
  const read = superblockReader((devicePath) =>
    devicePath.startsWith('/dev/hung/') ? hanging.promise : Promise.resolve(block),
  );
  const { signal } = new AbortController();
  const asked = Array.from({ length: 8 }, (_, i) => read(`/dev/hung/${i}`, xfs, leaving.signal));
  leaving.abort(new Error('deadline'));
  for (const one of asked) await assert.rejects(one, /deadline/);
  assert.equal(await read('/dev/hung/9', xfs, signal), 'busy', 'no more threads than these wait for the disk');
  assert.notEqual(await read('/dev/sound/0', xfs, signal), 'busy');

  hanging.resolve(block);
  await hanging.promise;
  await new Promise(setImmediate);
  assert.notEqual(await read('/dev/hung/9', xfs, signal), 'busy');
});

test('a hung device is not read again before it has answered', async () => {
  const hanging = Promise.withResolvers<Uint8Array>();
  const read = superblockReader(() => hanging.promise);
  const { signal } = new AbortController();
  const first = read('/dev/mapper/luks', xfs, signal);
  assert.equal(await read('/dev/mapper/luks', xfs, signal), 'busy');
  hanging.resolve(block);
  assert.notEqual(await first, 'busy');
});

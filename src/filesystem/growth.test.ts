import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Run } from '../base/exec.ts';
import type { Volume } from '../engine/pool.ts';
import { btrfs } from './btrfs.ts';
import { ext4 } from './ext4.ts';
import type { Filesystem } from './filesystem.ts';
import { FilesystemGrower } from './growth.ts';
import { xfs } from './xfs.ts';

const signal = new AbortController().signal;
const volume: Volume = {
  id: 'v',
  sizeBytes: 100n,
  devicePath: '/dev/v',
  tags: [],
  readOnly: false,
  attr: '-wi-a-----',
};

async function commandsFor(filesystem: Filesystem, sizeBytes: bigint | undefined): Promise<string[]> {
  const commands: string[] = [];
  const run: Run = async (command) => {
    commands.push(command.join(' '));
    return { stdout: '', stderr: '' };
  };
  const superblock = async () => (sizeBytes === undefined ? undefined : { sizeBytes, isUnfinished: false });
  await new FilesystemGrower({ run, superblock }).grow(volume, filesystem, '/at', signal);
  return commands;
}

test('a filesystem that is smaller than its device grows, through its mount or its device', async () => {
  assert.deepEqual(await commandsFor(ext4, 99n), ['resize2fs /dev/v']);
  assert.deepEqual(await commandsFor(xfs, 99n), ['xfs_growfs -d /at']);
  assert.deepEqual(await commandsFor(btrfs, 99n), ['btrfs filesystem resize max /at']);
});

test('a filesystem of full size runs no command; one of unknown size leaves it to the command', async () => {
  assert.deepEqual(await commandsFor(ext4, 100n), []);
  assert.deepEqual(await commandsFor(xfs, undefined), ['xfs_growfs -d /at']);
});

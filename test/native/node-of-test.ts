import { randomUUID } from 'node:crypto';
import { mkdir, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { Run } from '../../src/base/exec.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import type { PreparedUse, Publication } from '../../src/csi/node/node-volumes.ts';
import type { FilesystemSettings } from '../../src/csi/volume-use.ts';
import { Pools } from '../../src/engine/pools.ts';
import type { Filesystem } from '../../src/filesystem/filesystem.ts';
import { Mounts } from '../../src/filesystem/mounts.ts';
import { EncryptedVolumes } from '../../src/volumes/encrypted-volumes.ts';
import { EphemeralVolumes } from '../../src/volumes/ephemeral-volumes.ts';
import { PublishedVolumes } from '../../src/volumes/published-volumes.ts';
import { run } from '../../worlds/host/processes.ts';
import { openFilePool, scratchDirectory } from './scratch.ts';

export const signal = new AbortController().signal;
export const mebibyte = 1024n ** 2n;
export const sizeBytes = 320n * mebibyte;
export const mounts = new Mounts({ run });

export function mounted(filesystem: Filesystem, settings: Partial<FilesystemSettings> = {}, mountFlags: string[] = []) {
  const plain = { mkfsOptions: [], rootMode: 0o2777, rootOwner: { uid: 0, gid: 0 } };
  return { kind: 'filesystem', filesystem, mountFlags, settings: { ...plain, ...settings } } as const;
}

interface NodeOfTest {
  /** The directory of everything; copies need a filesystem that can share blocks. */
  readonly directory?: string;
  /** May fail, to simulate a crash or a slow disk. */
  readonly before?: (command: readonly string[]) => void;
}

/** A node with one new volume in a file pool, and a record of the programs that it ran. */
export async function node(t: TestContext, { directory: given, before }: NodeOfTest = {}) {
  const directory = given ?? (await scratchDirectory(t));
  const path = join(directory, 'pool');
  await mkdir(path);
  const pool = await openFilePool(path);
  const data = `data-${randomUUID()}`; // mkfs.btrfs searches all devices of the machine for its UUID
  await pool.create({ id: data, sizeBytes, tags: [] }, signal);
  const programs: string[] = [];
  const counted: Run = (command, options) => {
    programs.push(command[0]);
    before?.(command);
    return run(command, options);
  };
  const pools = new Pools([pool], 'files');
  const ephemeral = new EphemeralVolumes({ pools, log: silentLog });
  const encrypted = EncryptedVolumes.create({ run: counted, log: silentLog });
  /** Like a restart: only the state of the kernel and the disk is left. */
  const start = () => PublishedVolumes.create({ pools, ephemeral, encrypted, run: counted });
  const stagingPath = join(directory, 'staged here');
  const targetPath = join(directory, 'pods', 'a pod', 'mount');
  const publication = (use: PreparedUse): Publication => ({
    volumeId: data,
    targetPath,
    stagingPath,
    readOnly: false,
    exclusive: false,
    use,
    ephemeral: undefined,
  });
  const growth = { volumeId: data, volumePath: targetPath, stagingPath, isBlock: undefined };
  const ran = () => programs.splice(0);
  return { data, directory, pool, ephemeral, start, stagingPath, targetPath, publication, growth, ran };
}

export async function totalBytes(path: string): Promise<bigint> {
  const { blocks, bsize } = await statfs(path, { bigint: true });
  return blocks * bsize;
}

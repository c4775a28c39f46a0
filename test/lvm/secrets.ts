import type { TestContext } from 'node:test';
import { type Run, run } from '../../src/base/exec.ts';
import type { Pool } from '../../src/engine/pool.ts';
import { foundOnDevice } from '../../worlds/lvm/found-on-device.ts';
import { command, volumeGroup } from '../../worlds/lvm/inside.ts';
import { mebibyte, signal } from './lvm-pools.ts';

/** What erasures and discards have to destroy. */
export const secret = 'moorage-secret';

export async function writeSecret(devicePath: string, atMb: readonly number[]): Promise<void> {
  for (const at of atMb) {
    await command('sh', '-c', `printf ${secret} | dd of=${devicePath} bs=1M seek=${at} conv=fsync status=none`);
  }
}

/** Whether the secret can still be read, in the first `withinBytes` of the disk or in all of it. */
export async function isOnDisk(disk: string, withinBytes?: number): Promise<boolean> {
  await command('sh', '-c', `sync; blockdev --flushbufs ${disk}`);
  return foundOnDevice(disk, secret, withinBytes);
}

/** A volume group on a disk that supports discards: the loop device of a file volume, which punches holes. */
export async function discardingGroup(t: TestContext, files: Pool): Promise<{ vg: string; disk: string }> {
  const { devicePath: disk } = await files.create({ id: 'disk', sizeBytes: 100n * mebibyte, tags: [] }, signal);
  return { vg: await volumeGroup(t, { disks: [disk] }), disk };
}

/** Runs commands, but stops before each blkdiscard until it may go on. */
export function pausingDiscards(): { run: Run; reached: Promise<void>; goOn: () => void } {
  const reached = Promise.withResolvers<void>();
  const mayGoOn = Promise.withResolvers<void>();
  const pausing: Run = async (argv, options) => {
    if (argv[0] === 'blkdiscard') {
      reached.resolve();
      await mayGoOn.promise;
    }
    return run(argv, options);
  };
  return { run: pausing, reached: reached.promise, goOn: mayGoOn.resolve };
}

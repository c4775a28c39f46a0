import { open } from 'node:fs/promises';

const stampBytes = 512;

/** The first bytes of real devices; writes are synced. */
export const stamps = {
  async write(devicePath: string, stamp: string): Promise<void> {
    await using device = await open(devicePath, 'r+');
    await device.write(Buffer.from(stamp.padEnd(stampBytes, '\0')), 0, stampBytes, 0);
    await device.datasync();
  },

  async read(devicePath: string): Promise<string> {
    await using device = await open(devicePath, 'r');
    const { buffer } = await device.read(Buffer.alloc(stampBytes), 0, stampBytes, 0);
    return buffer.toString().replace(/\0+$/, '');
  },
};

import { open } from 'node:fs/promises';

const pieceBytes = 4 * 1024 ** 2;

/** Whether the text starts anywhere in the first `withinBytes` of the device, or in all of it. */
export async function foundOnDevice(devicePath: string, text: string, withinBytes = Infinity): Promise<boolean> {
  await using device = await open(devicePath, 'r');
  const buffer = Buffer.alloc(pieceBytes + text.length); // pieces overlap, because the text may span two
  for (let at = 0; at < withinBytes; at += pieceBytes) {
    const { bytesRead } = await device.read(buffer, 0, buffer.length, at);
    if (bytesRead === 0) return false;
    if (buffer.subarray(0, bytesRead).includes(text)) return true;
  }
  return false;
}

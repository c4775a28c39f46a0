import { readFile } from 'node:fs/promises';
import { blockDeviceAt } from '../base/device-number.ts';
import { parseMountInfo } from '../base/mountinfo.ts';
import { VolumeInUse } from './errors.ts';
import type { VolumeId } from './pool.ts';

/** Where device nodes are; no other filesystem is looked into, as it could be on a server that does not answer. */
const withDeviceNodes: ReadonlySet<string> = new Set(['devtmpfs', 'tmpfs']);

/**
 * A raw volume is published by binding the node of its device. Whoever sees that can open it at any time, and would open
 * whichever volume has the device's number by then: it is in use, whether or not anybody has it open. The kernel
 * knows all these mounts, also those from before a restart.
 */
export async function mustNotBeBound(id: VolumeId, devicePath: string): Promise<void> {
  const device = await blockDeviceAt(devicePath);
  if (device === undefined) return;
  for (const { root, filesystem, target } of parseMountInfo(await readFile('/proc/self/mountinfo', 'utf8'))) {
    const mayBeNode = root !== '/' && withDeviceNodes.has(filesystem);
    if (mayBeNode && (await blockDeviceAt(target)) === device) throw new VolumeInUse(id, target);
  }
}

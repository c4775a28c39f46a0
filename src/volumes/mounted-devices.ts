import { readFile } from 'node:fs/promises';
import { blockDeviceAt } from '../base/device-number.ts';
import { type Mount, parseMountInfo } from '../base/mountinfo.ts';

/** A device that is mounted, or bound as a raw device for a pod. */
export interface MountedDevice {
  /** `major:minor` */
  readonly device: string;
  readonly target: string;
  readonly isBlock: boolean;
}

/** Where the kubelet binds block devices for pods, by claim and pod. */
const blockTargets = /\/volumeDevices\/publish\//;

/** The devices mounted below a directory, such as the kubelet's, from the kernel's mount table; runs no command. */
export async function mountedDevices(directory: string): Promise<readonly MountedDevice[]> {
  const mounts = parseMountInfo(await readFile('/proc/self/mountinfo', 'utf8'));
  const inside = mounts.filter(({ target }) => target.startsWith(directory === '/' ? '/' : `${directory}/`));
  return (await Promise.all(inside.map(mountedDevice))).filter((found) => found !== undefined);
}

/** Never accesses a filesystem, which could be on a server that does not answer. */
async function mountedDevice({ source, target }: Mount): Promise<MountedDevice | undefined> {
  const isBlock = blockTargets.test(target);
  if (!isBlock && !source.startsWith('/dev/')) return undefined;
  const device = await blockDeviceAt(isBlock ? target : source);
  return device === undefined ? undefined : { device, target, isBlock };
}

import { readFile } from 'node:fs/promises';
import { blockDeviceAt } from '../base/device-number.ts';
import { type Mount, parseMountInfo } from '../base/mountinfo.ts';

/** A device that the kubelet had mounted, or bound as a raw one. */
export interface MountedDevice {
  /** `major:minor` */
  readonly device: string;
  readonly target: string;
  readonly isBlock: boolean;
}

/** Where the kubelet has block devices bound for pods, by claim and pod. */
const blockTargets = /\/volumeDevices\/publish\//;

/** What is mounted below the kubelet's directory now, as the kernel tells it: no command is run. */
export async function mountedDevices(kubeletDir: string): Promise<readonly MountedDevice[]> {
  const mounts = parseMountInfo(await readFile('/proc/self/mountinfo', 'utf8'));
  const ofPods = mounts.filter(({ target }) => target.startsWith(`${kubeletDir}/`));
  return (await Promise.all(ofPods.map(mountedDevice))).filter((found) => found !== undefined);
}

/** Never looks into a filesystem, which could be on a server that does not answer. */
async function mountedDevice({ source, target }: Mount): Promise<MountedDevice | undefined> {
  const isBlock = blockTargets.test(target);
  if (!isBlock && !source.startsWith('/dev/')) return undefined;
  const device = await blockDeviceAt(isBlock ? target : source);
  return device === undefined ? undefined : { device, target, isBlock };
}

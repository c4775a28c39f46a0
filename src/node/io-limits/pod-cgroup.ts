import { access, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** The mount point of cgroup v2. */
export const cgroupRoot = '/sys/fs/cgroup';

/** Whether the kernel can limit the IO of control groups, which requires cgroup v2. */
export async function canLimitIo(root: string): Promise<boolean> {
  try {
    return (await readFile(join(root, 'cgroup.controllers'), 'utf8')).trim().split(' ').includes('io');
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

/** The directory of a pod's control group, created by systemd or by the kubelet; undefined if there is none. */
export async function findPodCgroup(root: string, podUid: string): Promise<string | undefined> {
  for (const path of pathsOf(podUid)) {
    const directory = join(root, path);
    if (await exists(directory)) return directory;
  }
  return undefined;
}

/** The group's limits for the device, in the kernel's format; undefined if it has none. */
export async function ioMaxOf(directory: string, device: string): Promise<string | undefined> {
  const file = join(directory, 'io.max');
  if (!(await exists(file))) return undefined;
  const lines = (await readFile(file, 'utf8')).split('\n');
  return lines.find((line) => line.startsWith(`${device} `))?.slice(device.length + 1);
}

export async function setIoMax(root: string, directory: string, device: string, limits: string): Promise<void> {
  if (!(await exists(join(directory, 'io.max')))) await enableIo(root, directory);
  await writeFile(join(directory, 'io.max'), `${device} ${limits}`);
}

/** A group has the files of a controller only if all its parents enable the controller. */
async function enableIo(root: string, directory: string): Promise<void> {
  const names = directory.slice(root.length).split('/').filter(Boolean);
  for (let depth = 0; depth < names.length; depth++) {
    await writeFile(join(root, ...names.slice(0, depth), 'cgroup.subtree_control'), '+io');
  }
}

/** By the pod's QoS class: burstable, best effort, guaranteed. */
function pathsOf(podUid: string): readonly string[] {
  const inSystemd = podUid.replaceAll('-', '_');
  return [
    `kubepods/burstable/pod${podUid}`,
    `kubepods/besteffort/pod${podUid}`,
    `kubepods/pod${podUid}`,
    `kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod${inSystemd}.slice`,
    `kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod${inSystemd}.slice`,
    `kubepods.slice/kubepods-pod${inSystemd}.slice`,
  ];
}

async function exists(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ENOENT';
}

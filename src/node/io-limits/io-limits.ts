import { basename } from 'node:path';
import { blockDeviceAt } from '../../base/device-number.ts';
import { MoorageError } from '../../base/errors.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import type { Log } from '../../base/log.ts';
import type { IoLimits } from '../../csi/io-limits.ts';
import { type MountedDevice, mountedDevices } from '../../volumes/mounted-devices.ts';
import { findPodCgroup, ioMaxOf, setIoMax } from './pod-cgroup.ts';

interface Collaborators {
  /** What a volume is to be held to; it may have changed each time that it is asked for. */
  readonly limitsOf: (volumeId: string) => IoLimits;
  /** Where its device is; undefined if this node has no such volume. */
  readonly deviceOf: (volumeId: string) => string | undefined;
  readonly kubeletDir: string;
  /** Where control groups are. */
  readonly cgroupRoot: string;
  readonly log: Log;
}

/**
 * Holds pods to the IO limits of their volumes, by `io.max` of the control group of each pod that has a volume mounted.
 * Which pods these are, the mounts themselves tell, so nothing has to be remembered and a restart loses nothing.
 */
export class PodIoLimits {
  readonly #collaborators: Collaborators;

  constructor(collaborators: Collaborators) {
    this.#collaborators = collaborators;
  }

  async apply(volumeId: string): Promise<Requeue> {
    const { limitsOf, deviceOf, kubeletDir, cgroupRoot, log } = this.#collaborators;
    const path = deviceOf(volumeId);
    const device = path === undefined ? undefined : await blockDeviceAt(path);
    if (device === undefined) return Requeue.never;
    const wanted = ioMax(limitsOf(volumeId));
    for (const podUid of podsWith(device, await mountedDevices(kubeletDir), kubeletDir)) {
      const cgroup = await findPodCgroup(cgroupRoot, podUid);
      const present = cgroup === undefined ? undefined : await ioMaxOf(cgroup, device);
      if ((present ?? unlimited) === wanted) continue;
      if (cgroup === undefined) throw new PodCgroupMissing(podUid); // soon it is there: to be tried again
      await setIoMax(cgroupRoot, cgroup, device, wanted);
      log.info({ volume: volumeId, pod: podUid, device, limits: wanted }, 'IO limits set');
    }
    return Requeue.never;
  }
}

/** In the words of the kernel's `io.max`. */
function ioMax(limits: IoLimits): string {
  const { readBytesPerSecond, writeBytesPerSecond, readOperationsPerSecond, writeOperationsPerSecond } = limits;
  const words = {
    rbps: readBytesPerSecond,
    wbps: writeBytesPerSecond,
    riops: readOperationsPerSecond,
    wiops: writeOperationsPerSecond,
  };
  return Object.entries(words)
    .map(([word, limit]) => `${word}=${limit ?? 'max'}`)
    .join(' ');
}

const unlimited = ioMax({});

/** The pods that have the device, by uid: the kubelet's paths name them. */
export function podsWith(device: string, mounted: readonly MountedDevice[], kubeletDir: string): ReadonlySet<string> {
  const uids = mounted
    .filter((mount) => mount.device === device)
    .map(({ target, isBlock }) => (isBlock ? basename(target) : uidIn(target.slice(kubeletDir.length))));
  return new Set(uids.filter((uid) => uid !== undefined));
}

function uidIn(path: string): string | undefined {
  return /^\/pods\/(?<uid>[^/]+)\/volumes\//.exec(path)?.groups?.uid;
}

/** The kubelet makes it at about the time when it has the pod's volumes mounted. */
export class PodCgroupMissing extends MoorageError {
  readonly code = 'Unavailable';

  constructor(podUid: string) {
    super(
      `pod ${podUid} has no control group below kubepods or kubepods.slice, so its IO is not limited; ` +
        'if it runs, check that the kubelet has --cgroups-per-qos and no --cgroup-root',
    );
  }
}

import { basename } from 'node:path';
import { blockDeviceAt } from '../../base/device-number.ts';
import { MoorageError } from '../../base/errors.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import type { Log } from '../../base/log.ts';
import type { IoLimits } from '../../csi/io-limits.ts';
import { type MountedDevice, mountedDevices } from '../../volumes/mounted-devices.ts';
import { findPodCgroup, ioMaxOf, setIoMax } from './pod-cgroup.ts';

interface Collaborators {
  /** The limits of a volume; they may change between two calls. */
  readonly limitsOf: (volumeId: string) => IoLimits;
  /** The path of the device that pods have; undefined if this node has no such volume. */
  readonly deviceOf: (volumeId: string) => string | undefined;
  readonly kubeletDir: string;
  /** The root of the control groups. */
  readonly cgroupRoot: string;
  readonly log: Log;
}

/**
 * Limits the IO of pods on their volumes, with `io.max` of the control group of each pod that has a volume mounted. The
 * mounts show which pods these are, so there is no state that a restart could lose.
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
      if (cgroup === undefined) throw new PodCgroupMissing(podUid); // it will exist soon: retry
      await setIoMax(cgroupRoot, cgroup, device, wanted);
      log.info({ volume: volumeId, pod: podUid, device, limits: wanted }, 'IO limits set');
    }
    return Requeue.never;
  }
}

/** In the format of the kernel's `io.max`. */
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

/** The uids of the pods that have the device, from the kubelet's paths. */
export function podsWith(device: string, mounted: readonly MountedDevice[], kubeletDir: string): ReadonlySet<string> {
  const uids = mounted
    .filter((mount) => mount.device === device)
    .map(({ target, isBlock }) => (isBlock ? basename(target) : uidIn(target.slice(kubeletDir.length))));
  return new Set(uids.filter((uid) => uid !== undefined));
}

function uidIn(path: string): string | undefined {
  return /^\/pods\/(?<uid>[^/]+)\/volumes\//.exec(path)?.groups?.uid;
}

/** The kubelet creates it at about the time when it mounts the pod's volumes. */
export class PodCgroupMissing extends MoorageError {
  readonly code = 'Unavailable';

  constructor(podUid: string) {
    super(
      `pod ${podUid} has no control group below kubepods or kubepods.slice, so its IO is not limited; ` +
        'if the pod runs, check that the kubelet has --cgroups-per-qos and no --cgroup-root',
    );
  }
}

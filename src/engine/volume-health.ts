/** Whether a volume is healthy, in one sentence for people. */
export interface VolumeHealth {
  readonly isAbnormal: boolean;
  readonly message: string;
}

export const healthy: VolumeHealth = { isAbnormal: false, message: 'the volume is healthy' };

/** Positions in lv_attr that report problems. */
const [stateAt, openAt, healthAt] = [4, 5, 8];

const states: Readonly<Record<string, VolumeHealth>> = {
  h: abnormal('the volume was removed and only its history is left; restore its data from a backup'),
  s: abnormal('the volume is suspended and all its I/O waits; resume it with dmsetup resume'),
  I: abnormal('the snapshot has overflowed and is unusable; create a new one'),
  S: abnormal('the snapshot has overflowed and is suspended; create a new one'),
  m: abnormal('merging the snapshot failed; look for the cause in the kernel log'),
  M: abnormal('merging the snapshot failed and it is suspended; look for the cause in the kernel log'),
  d: abnormal('the kernel has the device without a table; activate the volume again'),
  i: abnormal('the kernel has the device with an inactive table; activate the volume again'),
  c: abnormal('the thin pool needs to be checked; repair it with lvconvert --repair'),
  C: abnormal('the thin pool needs to be checked and is suspended; repair it with lvconvert --repair'),
  X: abnormal('the state of the volume is unknown; look at lvs and the kernel log'),
};

const healths: Readonly<Record<string, VolumeHealth>> = {
  p: abnormal('one of its disks is missing; bring it back, or repair the volume with lvconvert --repair'),
  X: abnormal('the health of the volume is unknown; look at lvs and the kernel log'),
  E: abnormal('its write cache reports an error; look at the disk that the cache is on'),
  F: abnormal('its thin pool has failed; look at the kernel log, and repair the pool with lvconvert --repair'),
  D: abnormal('the thin pool has no space left for data; extend it with lvextend'),
  M: abnormal('the metadata of the thin pool is read-only; repair the pool with lvconvert --repair'),
  r: abnormal('a leg of its RAID had write errors; refresh it with lvchange --refresh, or replace the disk'),
  m: abnormal('the legs of its RAID differ; check them with lvchange --syncaction check'),
  s: normal('its RAID is being reshaped'),
  R: normal('its RAID was reshaped, and disks that are no longer needed can be removed'),
  w: normal('a leg of its RAID is write-mostly: it is read only if necessary'),
};

/** The health that a volume's lv_attr reports. */
export function healthOf(attr: string): VolumeHealth {
  const known = healths[attr.charAt(healthAt)] ?? states[attr.charAt(stateAt)];
  if (known) return known;
  if (attr.charAt(openAt) !== 'X') return healthy;
  return abnormal('cannot determine whether the volume is in use; look at lvs and the kernel log');
}

function abnormal(message: string): VolumeHealth {
  return { isAbnormal: true, message };
}

function normal(message: string): VolumeHealth {
  return { isAbnormal: false, message };
}

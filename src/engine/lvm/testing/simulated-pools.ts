import { ManualClock } from '../../../base/testing/manual-clock.ts';
import { silentLog } from '../../../base/testing/silent-log.ts';
import type { ThickClass, ThinClass } from '../../config/device-classes.ts';
import { Eraser } from '../../erase/eraser.ts';
import { Erasures } from '../../erase/erasures.ts';
import type { CopyDevice } from '../../volume-copies.ts';
import { Lvm, newLvmCounts } from '../lvm.ts';
import { LvmPool } from '../lvm-pool.ts';
import { VolumeGroup } from '../volume-group.ts';
import { SimulatedLvm } from './simulated-lvm.ts';

export const signal = new AbortController().signal;
export const extent = 4194304n;

/** A simulated volume group, whose commands go to `run` if it is given. */
export function simulatedGroup(
  simulated: SimulatedLvm,
  { clock = new ManualClock(), run = simulated.run, isWatched = false } = {},
): VolumeGroup {
  const common = { clock, log: silentLog };
  return new VolumeGroup({
    name: 'vg',
    lvm: new Lvm({ command: ['lvm'], run, env: {}, counts: newLvmCounts(), ...common }),
    sequenceNumberOf: async () => simulated.numberOnDisks(),
    deviceNames: () => simulated.deviceNames(),
    locks: { isWatched, isTaken: async () => false },
    ...common,
  });
}

function newGroup(
  simulated: SimulatedLvm,
  clock: ManualClock,
  eraser: Pick<Eraser, 'erase'> = new Eraser(simulated.run),
) {
  const common = { clock, log: silentLog };
  const { run } = simulated;
  return { group: simulatedGroup(simulated, { clock }), erasures: new Erasures({ eraser, ...common }), run, ...common };
}

const anyClass = {
  isDefault: true,
  spareBytes: 0n,
  erase: { kind: 'none' as const },
  volumeGroup: 'vg',
  stripes: 0,
  stripeSize: undefined,
  lvcreateOptions: [],
};

/** Opens a thick pool on a simulated volume group. */
export async function openThick({
  extents = 100,
  copyDevice,
  eraser,
  ...settings
}: Partial<ThickClass> & { extents?: number; copyDevice?: CopyDevice; eraser?: Pick<Eraser, 'erase'> } = {}) {
  const simulated = new SimulatedLvm(extents);
  const collaborators = newGroup(simulated, new ManualClock(), eraser);
  const deviceClass: ThickClass = { ...anyClass, type: 'thick', name: 'ssd', snapshots: 'none', ...settings };
  const optionClasses = [
    { name: 'mirrored', options: ['--type', 'raid1'] },
    { name: 'wide', options: ['--stripes', '2'] },
  ];
  const copies = copyDevice && { copyDevice };
  const pool = await LvmPool.open({ ...collaborators, deviceClass, optionClasses, ...copies }, signal);
  simulated.commands.length = 0;
  return { pool, lvm: simulated };
}

const settings = { name: 'pool', overprovisionRatio: 2.5, maxDataPercent: 90, maxMetadataPercent: 85 };

/** Opens a thin pool of `extents` on a simulated volume group. */
export async function openThin({ extents = 100, eraser }: { extents?: number; eraser?: Pick<Eraser, 'erase'> } = {}) {
  const simulated = new SimulatedLvm(1000, { name: 'pool', extents });
  const clock = new ManualClock();
  const collaborators = newGroup(simulated, clock, eraser);
  const deviceClass: ThinClass = { ...anyClass, type: 'thin', name: 'thin', thinPool: settings };
  const deviceSize = async () => undefined;
  const pool = await LvmPool.open({ ...collaborators, deviceClass, optionClasses: [], deviceSize }, signal);
  simulated.commands.length = 0;
  return { pool, lvm: simulated, clock };
}

export const volume = (id: string, extents = 1n) => ({ id, sizeBytes: extents * extent, tags: [] });

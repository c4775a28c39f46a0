import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createLog } from '../base/log.ts';
import { ManualClock } from '../base/testing/manual-clock.ts';
import type { DeviceClass, FileClass, ThickClass, ThinClass } from './config/device-classes.ts';
import { adoptedTag, createdTag } from './names-and-tags.ts';
import type { PlacedVolume } from './pool.ts';
import { Pools } from './pools.ts';
import { UnservedVolumes, unserved } from './unserved-volumes.ts';

const any = { isDefault: false, spareBytes: 0n, erase: { kind: 'none' as const } };
const lvm = { ...any, stripes: 0, stripeSize: undefined, lvcreateOptions: [] };
const thick = (volumeGroup: string): ThickClass => ({
  ...{ ...lvm, volumeGroup, name: volumeGroup, type: 'thick', snapshots: 'none' },
});
const thin = (volumeGroup: string, name: string): ThinClass => ({
  ...{ ...lvm, volumeGroup, name, type: 'thin' },
  thinPool: { name, overprovisionRatio: 1, maxDataPercent: 90, maxMetadataPercent: 85 },
});
const file: FileClass = { ...any, name: 'file', type: 'file', path: '/files' };

type Place = Pick<PlacedVolume, 'volumeGroup' | 'thinPool'>;
const volume = (id: string, place: Place, tags: readonly string[] = [createdTag]): PlacedVolume => ({
  ...{ id, sizeBytes: 1n, tags, readOnly: false },
  ...place,
});
const names = (volumes: readonly PlacedVolume[]) => volumes.map(({ id }) => id);

test('a volume belongs to the class of its volume group or thin pool, or to none', () => {
  const classes = [thick('vg'), thin('other', 'fast'), file];
  const volumes = [
    volume('thick', { volumeGroup: 'vg' }),
    volume('thin-without-class', { volumeGroup: 'vg', thinPool: 'fast' }),
    volume('thin', { volumeGroup: 'other', thinPool: 'fast' }),
    volume('thick-without-class', { volumeGroup: 'other' }),
    volume('in-another-pool', { volumeGroup: 'other', thinPool: 'slow' }),
    volume('without-class', { volumeGroup: 'unknown' }),
  ];
  assert.deepEqual(names(unserved(volumes, classes)), [
    'thin-without-class',
    'thick-without-class',
    'in-another-pool',
    'without-class',
  ]);
});

test('only volumes with marks of Moorage or TopoLVM count', () => {
  const inline = `csi-${'0f'.repeat(32)}`;
  const volumes = [
    volume('root', { volumeGroup: 'system' }, []),
    volume('backup', { volumeGroup: 'system' }, ['ephemeral', 'a']),
    volume('adopted', { volumeGroup: 'system' }, ['a', adoptedTag]),
    volume(inline, { volumeGroup: 'system' }, ['ephemeral']),
  ];
  assert.deepEqual(names(unserved(volumes, [])), ['adopted', inline]);
});

function start(deviceClasses: readonly DeviceClass[], onDisks: readonly PlacedVolume[] | Error = []) {
  const clock = new ManualClock();
  const logged: string[] = [];
  const state = { deviceClasses, onDisks, looks: 0 };
  const allVolumes = async () => {
    state.looks += 1;
    if (state.onDisks instanceof Error) throw state.onDisks;
    return state.onDisks;
  };
  const log = createLog('test', 'warn', (line) => logged.push(JSON.parse(line).msg));
  const pools = new Pools();
  const options = { allVolumes, deviceClasses: () => state.deviceClasses, pools, clock, log };
  const passes = async (ms: number) => {
    clock.advance(ms);
    await nextTurn();
  };
  return { clock, logged, pools, state, passes, unserved: new UnservedVolumes(options) };
}

const lost = volume('data', { volumeGroup: 'old' });

test('volumes without a class are reported and logged once, a minute after the last change of the configuration', async () => {
  const { clock, logged, pools, state, passes, unserved } = start([thick('vg')], [lost]);
  unserved.lookLater();
  await passes(59_000);
  unserved.lookLater();
  await passes(59_000);
  assert.equal(state.looks, 0);
  await passes(1_000);
  assert.deepEqual(pools.unserved(), [lost]);
  await passes(600_000);
  assert.equal(state.looks, 2, 'while there are some, they are looked for again');
  assert.equal(logged.length, 1);
  assert.match(logged[0] ?? '', /^volumes created by Moorage belong to no device class: old\/data; add their class/);

  state.onDisks = [];
  await passes(600_000);
  assert.deepEqual(pools.unserved(), []);
  assert.equal(clock.timers, 0, 'no news is expected');
});

test('a volume whose class is added again is served at once, and reported as without a class no more', async () => {
  const { pools, state, passes, unserved } = start([thick('vg')], [lost]);
  unserved.lookLater();
  await passes(60_000);
  let news = 0;
  pools.onChange(() => {
    news += 1;
  });
  state.deviceClasses = [thick('vg'), thick('old')];
  unserved.lookLater();
  assert.deepEqual([pools.unserved(), news], [[], 1]);
  unserved.stop();
});

test('a failure is logged and forgets nothing; nothing is looked for after the stop', async () => {
  const { clock, logged, pools, state, passes, unserved } = start([thick('vg')], [lost]);
  unserved.lookLater();
  await passes(60_000);
  state.onDisks = new Error('lvs hangs');
  await passes(600_000);
  assert.equal(logged[1], 'cannot look for volumes without a device class: lvs hangs');
  assert.deepEqual(pools.unserved(), [lost]);
  unserved.stop();
  unserved.lookLater(); // a change of the configuration may still be under way
  assert.equal(clock.timers, 0);
});

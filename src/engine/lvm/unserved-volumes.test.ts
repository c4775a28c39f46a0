import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Run } from '../../base/exec.ts';
import { createLog } from '../../base/log.ts';
import { ManualClock } from '../../base/testing/manual-clock.ts';
import type { DeviceClass, FileClass, ThickClass, ThinClass } from '../config/device-classes.ts';
import { createdTag } from '../names-and-tags.ts';
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
const volume = (group: string, name: string, pool?: string, tags = [createdTag]) => ({ group, name, tags, pool });

test('a volume belongs to the class of its volume group or thin pool, or to none', () => {
  const classes = [thick('vg'), thin('other', 'fast'), file];
  const volumes = [
    volume('vg', 'thick'),
    volume('vg', 'thin-without-class', 'fast'),
    volume('other', 'thin', 'fast'),
    volume('other', 'thick-without-class'),
    volume('other', 'in-another-pool', 'slow'),
    volume('unknown', 'without-class'),
    volume('unknown', 'not-ours', undefined, ['a']),
  ];
  assert.deepEqual(unserved(volumes, classes), [
    'vg/thin-without-class',
    'other/thick-without-class',
    'other/in-another-pool',
    'unknown/without-class',
  ]);
});

function start(deviceClasses: readonly DeviceClass[], stdout = '') {
  const clock = new ManualClock();
  const commands: string[] = [];
  const logged: string[] = [];
  const run: Run = async (command) => {
    commands.push(command.join(' '));
    return { stdout, stderr: '' };
  };
  const log = createLog('test', 'warn', (line) => logged.push(JSON.parse(line).msg));
  const options = { command: ['lvm'] as const, run, env: {}, clock, log };
  return { clock, commands, logged, unserved: new UnservedVolumes({ ...options, deviceClasses: () => deviceClasses }) };
}

test('volumes without a class are logged once, a minute after the last change of the configuration', async () => {
  const row = { vg_name: 'old', lv_name: 'data', lv_tags: `a,${createdTag}`, pool_lv: '' };
  const { clock, commands, logged, unserved } = start([thick('vg')], JSON.stringify({ report: [{ lv: [row] }] }));
  unserved.lookLater();
  clock.advance(59_000);
  unserved.lookLater();
  clock.advance(59_000);
  assert.deepEqual(commands, []);
  clock.advance(1_000);
  await nextTurn();
  assert.deepEqual(commands, ['lvm lvs --reportformat json -o vg_name,lv_name,lv_tags,pool_lv']);
  assert.equal(logged.length, 1);
  assert.match(logged[0] ?? '', /^volumes created by Moorage belong to no device class: old\/data; configure one/);
  assert.equal(clock.timers, 0);
});

test('an unreadable LVM report is logged; LVM is not run if all classes are files, or after the stop', async () => {
  const odd = start([thick('vg')], 'no JSON');
  odd.unserved.lookLater();
  odd.clock.advance(60_000);
  await nextTurn();
  assert.match(odd.logged[0] ?? '', /^cannot look for volumes without a device class/);

  const files = start([file]);
  files.unserved.lookLater();
  files.clock.advance(60_000);
  const stopped = start([thick('vg')]);
  stopped.unserved.lookLater();
  stopped.unserved.stop();
  stopped.unserved.lookLater(); // a change of the configuration may still be under way
  stopped.clock.advance(60_000);
  await nextTurn();
  assert.deepEqual([files.commands, stopped.commands], [[], []]);
});

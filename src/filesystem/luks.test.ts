import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Run } from '../base/exec.ts';
import { luksDevicePath } from '../engine/luks-device.ts';
import { Luks } from './luks.ts';

const { signal } = new AbortController();

test('no logical volume can have the name of an open LUKS mapping, whatever its group is called', () => {
  assert.notEqual(luksDevicePath('data'), '/dev/mapper/moorage-data'); // volume data of group moorage
  assert.notEqual(luksDevicePath('data'), '/dev/mapper/moorage-luks--data'); // volume luks-data of group moorage
  assert.notEqual(luksDevicePath('data'), '/dev/mapper/moorage--luks-data'); // volume data of group moorage-luks
});

test('a mapping on another device with the same name stays open', async () => {
  const ran: string[] = [];
  const run: Run = async ([, verb = '']) => {
    ran.push(verb);
    return { stdout: '  type:    LUKS2\n  device:  /dev/null\n', stderr: '' };
  };
  const luks = new Luks({ run, probe: () => assert.fail() });
  const volume = { id: 'data', sizeBytes: 1n, tags: [], readOnly: false, attr: '-wi-a-----' };
  await assert.rejects(luks.close({ ...volume, devicePath: '/dev/zero' }, signal), { name: 'MappingForeign' });
  assert.deepEqual(ran, ['status']);
  await luks.close({ ...volume, devicePath: '/dev/null' }, signal);
  assert.deepEqual(ran, ['status', 'status', 'close']);
});

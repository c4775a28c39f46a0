import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommandFailed, type Run } from '../base/exec.ts';
import { closeMapping, deviceInUse, luksDevicePath, mappingOf } from './luks-device.ts';
import { encryptedTag } from './names-and-tags.ts';

test('no logical volume can have the name of an open LUKS mapping, whatever its group is called', () => {
  assert.notEqual(luksDevicePath('data'), '/dev/mapper/moorage-data'); // volume data of group moorage
  assert.notEqual(luksDevicePath('data'), '/dev/mapper/moorage-luks--data'); // volume luks-data of group moorage
  assert.notEqual(luksDevicePath('data'), '/dev/mapper/moorage--luks-data'); // volume data of group moorage-luks
});

const prints =
  (stdout: string): Run =>
  async () => ({ stdout, stderr: '' });

test('an open volume is on its own device, and ends where cryptsetup says', async () => {
  const status = (units: string) =>
    `/dev/mapper/x is active.\n  type:    LUKS2\n  device:  /dev/null\n  offset:  32768 ${units}\n  size:    8 ${units}\n`;
  for (const units of ['sectors', '[512-byte units] (1 [bytes])']) {
    const mapping = await mappingOf(prints(status(units)), { id: 'data', devicePath: '/dev/null' });
    assert.deepEqual(mapping, { device: '/dev/null', endBytes: 32_776n * 512n });
  }
  const unknown = await mappingOf(prints('  device:  /dev/null\n'), { id: 'data' });
  assert.deepEqual(unknown, { device: '/dev/null', endBytes: 0n });
});

test('a volume is not open if cryptsetup says so; any other failure is an error', async () => {
  const exits =
    (exitCode: number): Run =>
    (command) =>
      Promise.reject(new CommandFailed(command, { exitCode, signal: null, stdout: '', stderr: '' }));
  assert.equal(await mappingOf(exits(4), { id: 'data', devicePath: '/dev/null' }), undefined);
  await assert.rejects(mappingOf(exits(1), { id: 'data' }), { name: 'CommandFailed' });
});

test('another device that is open under the name of a volume is refused', async () => {
  const run = prints('  device:  /dev/null\n');
  await assert.rejects(mappingOf(run, { id: 'data', devicePath: '/dev/zero' }), { name: 'MappingForeign' });
});

test('closing a volume that has no decrypted device runs no command', async () => {
  await closeMapping(() => assert.fail(), { id: 'no-such-volume' });
});

test('pods have the decrypted device of an encrypted volume', () => {
  const volume = { id: 'v', sizeBytes: 1n, devicePath: '/dev/vg/v', tags: [], readOnly: false, attr: '' };
  assert.equal(deviceInUse(volume), '/dev/vg/v');
  assert.equal(deviceInUse({ ...volume, tags: [encryptedTag] }), '/dev/mapper/moorage-luks-v');
});

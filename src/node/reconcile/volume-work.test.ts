import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { logicalVolumes } from '../../api/logical-volume.ts';
import { VolumeInUse } from '../../engine/errors.ts';
import { never, reconcilingNode } from '../testing/reconciling-node.ts';

test('a refused step is retried soon after a pool changes, but not because of its own attempt', async (t) => {
  const { api, clock, ssd, hdd, pools, volumes, gone } = reconcilingNode(t);
  const oneMinute = async () => {
    for (let passedMs = 0; passedMs < 60_000; passedMs += 250) {
      clock.advance(250);
      await setImmediate();
    }
  };

  await ssd.create({ id: 'uid-2', sizeBytes: 1024n, tags: [] });
  const remove = ssd.remove.bind(ssd);
  let tries = 0;
  ssd.remove = async (id) => {
    tries += 1;
    pools.become({ pools: [ssd, hdd], defaultClass: 'ssd', unavailable: new Map() }); // a pool that reads its disks reports a change
    throw new VolumeInUse(id, '/dev/ssd/uid-2');
  };
  const metadata = { name: 'pvc-1', finalizers: ['topolvm.io/logicalvolume'] };
  const spec = { name: 'pvc-1', nodeName: 'a', size: '1Ki' };
  const status = { volumeID: 'uid-2', currentSize: '1Ki' };
  await api.create(logicalVolumes, { metadata, spec, status });
  await api.delete(logicalVolumes, 'pvc-1');
  await volumes.until('pvc-1', (volume) => Boolean(volume?.status?.code), never);
  await oneMinute();
  assert.ok(tries < 20, `${tries} tries in a minute`);

  tries = 0;
  await ssd.create({ id: 'other', sizeBytes: 1024n, tags: [] });
  clock.advance(500);
  await setImmediate();
  assert.equal(tries, 1);

  ssd.remove = remove;
  await ssd.remove('other');
  clock.advance(500);
  await gone();
});

test('two hundred removals that erase for hours do not delay a creation in another class', async (t) => {
  const { api, hdd, volumes } = reconcilingNode(t);
  const erased = Promise.withResolvers<void>();
  let erasing = 0;
  hdd.remove = async () => {
    erasing += 1;
    await erased.promise;
    return 'erased';
  };

  const metadata = (name: string) => ({ name, finalizers: ['topolvm.io/logicalvolume'] });
  const spec = (name: string, deviceClass: string) => ({ name, nodeName: 'a', size: '1', deviceClass });
  const names = Array.from({ length: 200 }, (_, i) => `old-${i}`);
  for (const name of names) {
    const status = { volumeID: name, currentSize: '1' };
    await api.create(logicalVolumes, { metadata: metadata(name), spec: spec(name, 'hdd'), status });
    await api.delete(logicalVolumes, name);
  }
  await api.create(logicalVolumes, { metadata: metadata('new'), spec: spec('new', 'ssd') });
  await volumes.until('new', (volume) => Boolean(volume?.status?.volumeID), never);
  assert.equal(erasing, 200);
  assert.equal(volumes.size, 201, 'none is released before its data is destroyed');

  erased.resolve();
  for (const name of names) await volumes.until(name, (volume) => volume === undefined, never);
});

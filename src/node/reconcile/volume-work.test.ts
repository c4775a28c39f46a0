import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { type LogicalVolume, logicalVolumes } from '../../api/logical-volume.ts';
import { systemClock } from '../../base/clock.ts';
import { silentLog } from '../../base/log.ts';
import { ManualClock } from '../../base/testing/manual-clock.ts';
import { Workers } from '../../base/work.ts';
import { VolumeInUse } from '../../engine/errors.ts';
import { Pools } from '../../engine/pools.ts';
import { InMemoryPool } from '../../engine/testing/in-memory-pool.ts';
import { Informer } from '../../kube/informer.ts';
import { InMemoryApi } from '../../kube/testing/in-memory-api.ts';
import { volumeWork } from './volume-work.ts';

test('a refused step is retried soon after a pool changes, but not because of its own attempt', async (t) => {
  const api = new InMemoryApi<LogicalVolume>();
  const clock = new ManualClock();
  const ssd = new InMemoryPool('ssd', 4096n);
  const pools = new Pools([ssd], 'ssd');
  const volumes = new Informer({ client: api.client, resource: logicalVolumes, clock: systemClock, log: silentLog });
  const work = new Workers([volumeWork({ client: api.client, volumes, pools, log: silentLog })], {
    clock,
    log: silentLog,
    random: () => 0,
  });
  work.start();
  volumes.start();
  t.after(async () => {
    await work.stop(0);
    await volumes.stop();
  });
  const oneMinute = async () => {
    for (let passedMs = 0; passedMs < 60_000; passedMs += 250) {
      clock.advance(250);
      await setImmediate();
    }
  };

  await ssd.create({ id: 'uid-2', sizeBytes: 1024n, tags: [] });
  let tries = 0;
  ssd.remove = async (id) => {
    tries += 1;
    pools.become({ pools: [ssd], defaultClass: 'ssd', unavailable: new Map() }); // a pool that reads its disks reports a change
    throw new VolumeInUse(id, '/dev/ssd/uid-2');
  };
  const metadata = { name: 'pvc-1', finalizers: ['topolvm.io/logicalvolume'] };
  const spec = { name: 'pvc-1', nodeName: 'a', size: '1Ki' };
  const status = { volumeID: 'uid-2', currentSize: '1Ki' };
  await api.create(logicalVolumes, { metadata, spec, status });
  await api.delete(logicalVolumes, 'pvc-1');
  await volumes.until('pvc-1', (volume) => Boolean(volume?.status?.code), new AbortController().signal);
  await oneMinute();
  assert.ok(tries < 20, `${tries} tries in a minute`);

  tries = 0;
  await ssd.create({ id: 'other', sizeBytes: 1024n, tags: [] });
  clock.advance(500);
  await setImmediate();
  assert.equal(tries, 1);
});

test('two hundred removals that erase for hours do not delay a creation in another class', async (t) => {
  const api = new InMemoryApi<LogicalVolume>();
  const [shred, ssd] = [new InMemoryPool('shred', 4096n), new InMemoryPool('ssd', 4096n)];
  const pools = new Pools([shred, ssd], 'ssd');
  const collaborators = { client: api.client, clock: systemClock, log: silentLog };
  const volumes = new Informer({ ...collaborators, resource: logicalVolumes });
  const work = new Workers([volumeWork({ ...collaborators, volumes, pools })], { ...collaborators, random: () => 0 });
  work.start();
  const erased = Promise.withResolvers<void>();
  let erasing = 0;
  shred.remove = async () => {
    erasing += 1;
    await erased.promise;
    return true;
  };
  volumes.start();
  t.after(async () => {
    await work.stop(0);
    await volumes.stop();
  });

  const { signal } = new AbortController();
  const metadata = (name: string) => ({ name, finalizers: ['topolvm.io/logicalvolume'] });
  const spec = (name: string, deviceClass: string) => ({ name, nodeName: 'a', size: '1', deviceClass });
  const names = Array.from({ length: 200 }, (_, i) => `old-${i}`);
  for (const name of names) {
    const status = { volumeID: name, currentSize: '1' };
    await api.create(logicalVolumes, { metadata: metadata(name), spec: spec(name, 'shred'), status });
    await api.delete(logicalVolumes, name);
  }
  await api.create(logicalVolumes, { metadata: metadata('new'), spec: spec('new', 'ssd') });
  await volumes.until('new', (volume) => Boolean(volume?.status?.volumeID), signal);
  assert.equal(erasing, 200);
  assert.equal(volumes.size, 201, 'none is released before its data is destroyed');

  erased.resolve();
  for (const name of names) await volumes.until(name, (volume) => volume === undefined, signal);
});

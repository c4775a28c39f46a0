import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { run } from '../../src/base/exec.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { allVolumesArguments, parseAllVolumes } from '../../src/engine/lvm/report.ts';
import { createdTag } from '../../src/engine/names-and-tags.ts';
import { StorageEngine } from '../../src/engine/storage-engine.ts';
import { unserved } from '../../src/engine/unserved-volumes.ts';
import { embeddedEngine } from '../../src/node/node-engine.ts';
import { command, deviceName, disks, volumeGroup } from '../../worlds/lvm/inside.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { waitForChange } from './wait-for-change.ts';

const signal = new AbortController().signal;
const mebibyte = 1024n ** 2n;

test('a volume group created later is served, and changes of the file take effect', async (t) => {
  const configFile = `/tmp/${deviceName('lvmd.yaml')}`;
  const configure = (...classes: string[]) =>
    writeFile(configFile, `lvm-command-prefix: [lvm]\ndevice-classes: [${classes.join(', ')}]\n`);
  const [first = '', second = ''] = disks();
  const early = await volumeGroup(t, { disks: [first] });
  const late = early.replace(/\d+$/, (digits) => String(Number(digits) + 1)); // the next name
  const one = `{name: one, volume-group: ${early}, spare-gb: 0, default: true}`;
  const two = `{name: two, volume-group: ${late}, spare-gb: 0}`;
  await configure(one, two);
  const engine = await StorageEngine.start(
    { configFile, stateDirectory: '/nowhere', run, env: process.env, clock: systemClock, log: silentLog },
    signal,
  );
  undoAfter(t, () => engine.stop());
  const { pools } = engine;
  const served = () => pools.all().map((pool) => pool.name);
  assert.deepEqual(served(), ['one']);
  assert.throws(() => pools.get('two'), { code: 'Unavailable', message: new RegExp(`${late} is not on this node`) });
  const { type, isDefault, volumeGroup: group, volumeGroupUuid, problem } = pools.get('one').details() ?? {};
  assert.deepEqual([type, isDefault, group, problem], ['thick', true, early, undefined]);
  assert.equal(volumeGroupUuid, await command('vgs', '--noheadings', '-o', 'vg_uuid', early));
  const { version, segmentTypes } = (await engine.lvmAbilities(signal)) ?? {};
  assert.match(version ?? '', /^2\.\d+\.\d+/);
  assert.ok(segmentTypes?.includes('thin-pool'), String(segmentTypes));
  await pools.get('one').create({ id: 'data', sizeBytes: 8n * mebibyte, tags: [] }, signal);

  assert.equal(await volumeGroup(t, { disks: [second] }), late);
  await waitForChange(pools, () => served().includes('two'));
  await pools.get('two').create({ id: 'other', sizeBytes: 8n * mebibyte, tags: [] }, signal);

  await configure(`{name: one, volume-group: ${early}, spare-gb: 100, default: true}`); // more than exists
  await waitForChange(pools, () => served().length === 1);
  assert.equal(pools.get('one').capacity().freeBytes, 0n);
  await assert.rejects(pools.get('one').create({ id: 'more', sizeBytes: mebibyte, tags: [] }, signal), {
    code: 'ResourceExhausted',
  });
  assert.ok(pools.get('one').get('data'), 'volumes stay');
  assert.equal(await command('lvs', '--noheadings', '-o', 'lv_name', late), 'other');
  const withoutClass = async () => {
    const { stdout } = await run(['lvm', ...allVolumesArguments], { timeoutMs: 60_000 });
    const found = unserved(parseAllVolumes(stdout), engine.deviceClasses());
    return found.filter(({ volumeGroup }) => volumeGroup === early || volumeGroup === late);
  };
  const other = { id: 'other', sizeBytes: 8n * mebibyte, tags: [createdTag], readOnly: false, volumeGroup: late };
  assert.deepEqual(await withoutClass(), [other]);

  await configure(two, one);
  await waitForChange(pools, () => served().length === 2);
  assert.equal(pools.get('two').get('other')?.sizeBytes, 8n * mebibyte);
  assert.ok(pools.get('one').capacity().freeBytes > 0n);
  assert.deepEqual(await withoutClass(), []);
});

test('two engines never serve the same volume group: the second one gets it when the first has no class in it', async (t) => {
  const [first = '', second = ''] = disks();
  const [shared, own] = [await volumeGroup(t, { disks: [first] }), await volumeGroup(t, { disks: [second] })];
  const engineWith = async (name: string, classes: readonly string[]) => {
    const configFile = `/tmp/${deviceName(name)}.yaml`;
    const configure = (...classes: readonly string[]) =>
      writeFile(configFile, `lvm-command-prefix: [lvm]\ndevice-classes: [${classes.join(', ')}]\n`);
    await configure(...classes);
    const options = {
      configFile,
      stateDirectory: '/nowhere',
      run,
      env: process.env,
      clock: systemClock,
      log: silentLog,
    };
    const engine = await StorageEngine.start(options, signal);
    undoAfter(t, () => engine.stop());
    const served = () => engine.pools.all().map((pool) => pool.name);
    return { pools: engine.pools, served, configure };
  };
  const one = `{name: one, volume-group: ${shared}, spare-gb: 0, default: true}`;
  await command('lvcreate', '-y', '-T', '-L', '100m', '-n', 'pool', shared);
  const two = `{name: two, volume-group: ${shared}, type: thin, thin-pool: {name: pool, overprovision-ratio: 2}}`;
  const three = `{name: three, volume-group: ${own}, spare-gb: 0, default: true}`;
  const holder = await engineWith('holder', [one, two]);
  assert.deepEqual(holder.served(), ['one', 'two']);

  const other = await engineWith('other', [two, three]);
  assert.deepEqual(other.served(), ['three']);
  const reason = new RegExp(
    `volume group ${shared} is served by another engine.*fuser -v /run/lock/lvm/moorage:${shared}`,
  );
  assert.throws(() => other.pools.get('two'), { code: 'Unavailable', message: reason });

  await holder.configure(one); // the remaining class keeps the group
  await waitForChange(holder.pools, () => holder.served().length === 1);
  await other.configure(two);
  await waitForChange(other.pools, () => other.served().length === 0);
  await other.configure(three, two);
  await waitForChange(other.pools, () => other.served().includes('three'));
  assert.deepEqual(other.served(), ['three']);

  await holder.configure(`{name: one, volume-group: ${own}-gone, default: true}`);
  await waitForChange(other.pools, () => other.served().includes('two'));
  await other.pools.get('two').create({ id: 'data', sizeBytes: 8n * mebibyte, tags: [] }, signal);
});

test('a volume group is served without a class, even before it exists, until a class is configured for it', async (t) => {
  const configFile = `/tmp/${deviceName('lvmd.yaml')}`;
  const configure = (...classes: string[]) =>
    writeFile(configFile, `lvm-command-prefix: [lvm]\ndevice-classes: [${classes.join(', ')}]\n`);
  const [first = '', second = ''] = disks();
  const early = await volumeGroup(t, { disks: [first] });
  const late = early.replace(/\d+$/, (digits) => String(Number(digits) + 1)); // the next name
  await configure(`{name: files, type: file, path: /nowhere}`);
  const lvmdSocket = `/tmp/${deviceName('lvmd.sock')}`;
  const options = { configFile, lvmdSocket, stateDirectory: '/nowhere', onAnswered: () => undefined };
  const engine = await embeddedEngine(
    { ...options, run, env: process.env, clock: systemClock, log: silentLog },
    signal,
  );
  undoAfter(t, async () => {
    await engine.stopServing(0);
    await engine.stop();
  });
  await engine.serveGroups(new Set([early, late]), signal);
  assert.throws(() => engine.poolOfGroup(late), { code: 'Unavailable', message: new RegExp(`${late} is not on this`) });
  const pool = engine.poolOfGroup(early);
  await pool.create({ id: 'data', sizeBytes: 8n * mebibyte, tags: ['moorage.dev/local-pv=data'] }, signal);
  assert.deepEqual(
    [engine.pools.all(), Object.fromEntries(engine.annotations())],
    [[], { 'capacity.topolvm.io/files': '0' }],
  );

  assert.equal(await volumeGroup(t, { disks: [second] }), late);
  await waitForChange(engine.allPools, () => engine.allPools.all().length === 2);
  assert.equal(engine.poolOfGroup(late).details()?.volumeGroup, late);

  await configure(`{name: one, volume-group: ${early}, spare-gb: 0}`);
  await waitForChange(engine.pools, () => engine.pools.all().length === 1);
  assert.equal(engine.poolOfGroup(early).name, 'one');
  assert.ok(engine.poolOfGroup(early).get('data'));
  await engine.serveGroups(new Set(), signal);
  assert.deepEqual(
    engine.allPools.all().map(({ name }) => name),
    ['one'],
  );
});

import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { stringify } from 'yaml';
import { Random } from '../../src/base/testing/random.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { command, disks, volumeGroup } from '../../worlds/lvm/inside.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { EngineProcess } from './engine-model/engine-process.ts';
import { foundInDirectory, foundInGroup } from './engine-model/found.ts';
import { PoolModel } from './engine-model/model.ts';
import { ModelRun, type PoolUnderTest } from './engine-model/model-run.ts';
import { stamps } from './engine-model/stamp.ts';

/** As many as requested, or as many as fit into one minute. */
const steps = process.env['MOORAGE_TEST_STEPS'];
const seed = Number(process.env['MOORAGE_TEST_SEED'] ?? Date.now() % 1_000_000);
const minuteMs = 60_000;

test('no volume with data disappears unless its removal was requested', async (t) => {
  t.diagnostic(`to repeat it: MOORAGE_TEST_SEED=${seed}`);
  const { configPath, pools } = await fourPools(t);
  const start = () => EngineProcess.start(configPath);
  const run = new ModelRun({ pools, random: new Random(seed), start, crashWithinMs: 60 });
  const endBy = performance.now() + minuteMs;
  await run.run(() => (steps ? run.counts.changes < Number(steps) : performance.now() < endBy));
  t.diagnostic(JSON.stringify(run.counts));
});

async function fourPools(t: TestContext): Promise<{ configPath: string; pools: PoolUnderTest[] }> {
  const [first = '', second = '', third = ''] = disks();
  const shared = await volumeGroup(t, { disks: [first] });
  const erased = await volumeGroup(t, { disks: [second] });
  await command('lvcreate', '-y', '--type', 'thin-pool', '-L', '1g', '-n', 'pool', shared);
  const directory = await filesystem(t, third);

  const configPath = join(directory, 'lvmd.yaml');
  const config = {
    'lvm-command-prefix': ['lvm'],
    'device-classes': [
      { name: 'thick', 'volume-group': shared, 'spare-gb': 0, snapshots: 'copy-on-write' },
      {
        name: 'thin',
        type: 'thin',
        'volume-group': shared,
        'thin-pool': { name: 'pool', 'overprovision-ratio': 10 },
      },
      { name: 'erased', 'volume-group': erased, 'spare-gb': 0, snapshots: 'copy-on-write', erase: 'zero' },
      { name: 'file', type: 'file', path: join(directory, 'volumes'), 'spare-gb': 0 },
    ],
  };
  await mkdir(join(directory, 'volumes'));
  await writeFile(configPath, stringify(config));
  return {
    configPath,
    pools: [
      lvmPool('thick', shared, undefined),
      lvmPool('thin', shared, 'pool'),
      lvmPool('erased', erased, undefined),
      {
        model: new PoolModel('file', 'file'),
        find: () => foundInDirectory(join(directory, 'volumes')),
        data: stamps,
      },
    ],
  };
}

function lvmPool(name: string, group: string, thinPool: string | undefined): PoolUnderTest {
  const sizeBytes = 8n * 1024n ** 2n;
  const size = `${sizeBytes}b`;
  const where = thinPool ? ['--thin', '--virtualsize', size, `${group}/${thinPool}`] : ['--size', size, group];
  return {
    model: new PoolModel(name, thinPool ? 'thin' : 'thick'),
    find: () => foundInGroup(group, thinPool),
    data: stamps,
    outside: {
      sizeBytes,
      create: async (id) => {
        await command('lvcreate', '-y', '-W', 'y', '-n', id, ...where);
        return `/dev/${group}/${id}`;
      },
      remove: async (id) => void (await command('lvremove', '-y', `${group}/${id}`)),
    },
  };
}

/** A filesystem that can share blocks between files. */
async function filesystem(t: TestContext, disk: string): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'engine-model-'));
  await command('mkfs.xfs', '-q', '-K', '-f', disk);
  await command('mount', disk, directory);
  undoAfter(t, async () => {
    for (const { name } of await loopDevicesBelow(directory)) await command('losetup', '--detach', name);
    // It is busy until nobody has the devices open any more.
    await eventually('it is unmounted', () => command('umount', directory).then(() => true));
    await command('wipefs', '--all', disk);
  });
  return directory;
}

async function loopDevicesBelow(directory: string): Promise<{ name: string }[]> {
  const json = await command('losetup', '--list', '--json', '--output', 'NAME,BACK-FILE');
  const { loopdevices } = JSON.parse(json || '{"loopdevices":[]}') as {
    loopdevices: { name: string; 'back-file': string }[];
  };
  return loopdevices.filter((loop) => loop['back-file'].startsWith(directory));
}

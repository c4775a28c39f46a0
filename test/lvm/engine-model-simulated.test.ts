import { test } from 'node:test';
import { Random } from '../../src/base/testing/random.ts';
import { SimulatedLvm } from '../../src/engine/lvm/testing/simulated-lvm.ts';
import { PoolModel } from './engine-model/model.ts';
import { ModelRun, type PoolUnderTest } from './engine-model/model-run.ts';
import { SimulatedEngine } from './engine-model/simulated-engine.ts';

const seed = Number(process.env['MOORAGE_TEST_SEED'] ?? Date.now() % 1_000_000);
const changes = 10_000;

test('the engine keeps its promises through ten thousand changes on a simulated LVM', async (t) => {
  t.diagnostic(`to repeat it: MOORAGE_TEST_SEED=${seed}`);
  const lvm = new SimulatedLvm(1000, { name: 'pool', extents: 100 });
  const data = simulatedData(lvm);
  const pools = [simulatedPool(lvm, 'thick', data), simulatedPool(lvm, 'thin', data)];
  const start = () => SimulatedEngine.start(lvm);
  const run = new ModelRun({ pools, random: new Random(seed), start, crashWithinMs: 3 });
  await run.run(() => run.counts.changes < changes);
  t.diagnostic(JSON.stringify(run.counts));
});

function simulatedPool(lvm: SimulatedLvm, kind: 'thick' | 'thin', data: PoolUnderTest['data']): PoolUnderTest {
  const isOurs = (pool: string | undefined) => (pool === undefined) === (kind === 'thick');
  return {
    model: new PoolModel(kind, kind, kind === 'thin'),
    data,
    find: async () =>
      [...lvm.volumes]
        .filter(([, { pool }]) => isOurs(pool))
        .map(([id, { extents, tags }]) => ({ id, sizeBytes: BigInt(extents * lvm.extentBytes), tags })),
    outside: {
      sizeBytes: BigInt(2 * lvm.extentBytes),
      create: async (id) => {
        lvm.volumes.set(id, { extents: 2, tags: [], ...(kind === 'thin' && { pool: 'pool' }) });
        lvm.sequenceNumber++;
        return `/dev/vg/${id}`;
      },
      remove: async (id) => {
        lvm.volumes.delete(id);
        lvm.sequenceNumber++;
      },
    },
  };
}

/** Contents belong to one volume: another one that is created under its name is empty. */
function simulatedData(lvm: SimulatedLvm): PoolUnderTest['data'] {
  const contents = new WeakMap<object, string>();
  const volumeAt = (devicePath: string) => lvm.volumes.get(devicePath.replace('/dev/vg/', ''));
  return {
    async write(devicePath, stamp) {
      const volume = volumeAt(devicePath);
      if (volume) contents.set(volume, stamp);
    },
    async read(devicePath) {
      const volume = volumeAt(devicePath);
      if (!volume) return '';
      const origin = volume.origin === undefined ? undefined : lvm.volumes.get(volume.origin);
      const content = contents.get(volume) ?? (origin && contents.get(origin)) ?? '';
      contents.set(volume, content); // a copy is read before its source can change
      return content;
    },
  };
}

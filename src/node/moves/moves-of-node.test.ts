import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import type { LogicalVolume } from '../../api/logical-volume.ts';
import {
  type MovePhase,
  movePhases,
  type VolumeMove,
  type VolumeMoveStatus,
  volumeMoves,
} from '../../api/volume-move.ts';
import { Listeners } from '../../base/listeners.ts';
import { ManualClock } from '../../base/testing/manual-clock.ts';
import { silentLog } from '../../base/testing/silent-log.ts';
import { Workers } from '../../base/work.ts';
import type { VolumeId } from '../../engine/pool.ts';
import { Informer } from '../../kube/informer.ts';
import type { Change } from '../../kube/object-cache.ts';
import type { Stored } from '../../kube/resource.ts';
import { InMemoryApi } from '../../kube/testing/in-memory-api.ts';
import { type CopiedRound, hasConverged } from './convergence.ts';
import { movesFrom } from './source-side.ts';
import { movesTo } from './target-side.ts';
import { InMemoryCopying } from './testing/in-memory-copying.ts';

/** What the controller has written on the volumes of the move. */
const marks: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  old: { 'moving.moorage.dev/uid-1': 'source' },
  new: { 'moorage.dev/move': 'uid-1' },
};

const volume = (name: string, annotations = marks[name]): Stored<LogicalVolume> => ({
  metadata: {
    name,
    uid: `uid-${name}`,
    resourceVersion: '1',
    creationTimestamp: '',
    ...(annotations && { annotations }),
  },
  spec: { name, nodeName: 'a', size: '1Gi' },
  status: { volumeID: `uid-${name}`, currentSize: '1Gi' },
});

/** The agent of one end of the only move, on an API server in memory. */
async function agent(t: TestContext, end: 'source' | 'target', spec: Partial<VolumeMove['spec']> = {}) {
  const copying = new InMemoryCopying();
  const api = new InMemoryApi<VolumeMove>();
  const clock = new ManualClock();
  const moves = new Informer({ client: api.client, resource: volumeMoves, clock, log: silentLog });
  const volumeChanges = new Listeners<Change<Stored<LogicalVolume>>>();
  let areVolumesKnown = true;
  let written = marks;
  const volumes = {
    get: (name: string) => (areVolumesKnown ? volume(name, written[name]) : undefined),
    onChange: (listener: (change: Change<Stored<LogicalVolume>>) => void) => volumeChanges.add(listener),
  };
  const givenBack = new Listeners<VolumeId>();
  const common = { client: api.client, moves, volumes, movable: copying, copying };
  const work =
    end === 'source'
      ? movesFrom({ ...common, givenBack, log: silentLog })
      : movesTo({ ...common, clock, log: silentLog });
  const workers = new Workers([work], { clock, log: silentLog, random: () => 0 });
  moves.start();
  workers.start();
  t.after(async () => {
    await workers.stop(0);
    await moves.stop();
  });
  await api.create(volumeMoves, { metadata: { name: 'move' }, spec: { claimName: 'c', ...spec } });
  const status = async () => (await api.get(volumeMoves, 'move'))?.status ?? {};
  return {
    copying,
    clock,
    givenBack,
    status,
    /** What the controller and the other agent write, and what the agent has done then. */
    sees: async (phase: MovePhase, change: VolumeMoveStatus = {}) => {
      copying.steps.length = 0;
      const body = { status: { sourceVolume: 'old', targetVolume: 'new', phase, ...change } };
      await api.patch(volumeMoves, 'move', { type: 'merge', body }, { subresource: 'status' });
      await settled();
      return [...copying.steps];
    },
    marksAre: (other: typeof marks) => {
      written = other;
    },
    /** As after a restart, when the watch of moves is faster. */
    forgetVolumes: () => {
      areVolumesKnown = false;
    },
    learnVolumes: async () => {
      copying.steps.length = 0;
      areVolumesKnown = true;
      for (const key of ['old', 'new'])
        volumeChanges.notify({ kind: 'added', key, object: volume(key), previous: undefined });
      await settled();
      return [...copying.steps];
    },
    done: async () => {
      copying.steps.length = 0;
      await settled();
      return [...copying.steps];
    },
  };
}

async function settled(): Promise<void> {
  for (let turn = 0; turn < 60; turn++) await setImmediate();
}

test('a source serves, then fences, then freezes, and ends its part', async (t) => {
  const { sees, status, copying } = await agent(t, 'source');
  assert.deepEqual(await sees('Pending'), []);
  assert.deepEqual(await sees('Copying'), [], 'the target has no certificate yet');
  assert.equal((await status()).source, undefined, 'a target that knows the endpoint would connect in vain');
  assert.deepEqual(await sees('Copying', { target: { certificate: 'T' } }), ['offer uid-old to T']);
  assert.deepEqual((await status()).source, { certificate: 'certificate-1', endpoint: '10.0.0.1:7443' });
  assert.deepEqual(await sees('Copying', { target: { certificate: 'T2' } }), ['end offer to T', 'offer uid-old to T2']);
  assert.ok((await sees('Stopping')).includes('fence uid-old for uid-1'));
  assert.equal((await status()).source?.fenced, true);
  assert.ok((await sees('Freezing')).includes('freeze uid-old'));
  assert.equal((await status()).source?.readOnly, true);
  assert.ok((await sees('Committed')).includes('end offer to T2'));
  assert.equal(copying.offers.size, 0);
  assert.ok((await sees('Cleaning')).includes('end copy of uid-old'));
  assert.equal((await status()).source?.released, true);
  assert.deepEqual(await sees('Cleaning', { message: 'x' }), [], 'what is released is left alone');
});

test('a source that is still open says so, and is frozen when a pod gives it back', async (t) => {
  const { sees, done, status, copying, givenBack } = await agent(t, 'source');
  copying.inUse = new Error('volume uid-old is still open');
  await sees('Freezing');
  assert.deepEqual((await status()).source?.message, 'volume uid-old is still open');
  assert.equal((await status()).source?.readOnly, undefined);
  copying.inUse = undefined;
  givenBack.notify('uid-old');
  assert.ok((await done()).includes('freeze uid-old'));
  assert.equal((await status()).source?.readOnly, true);
  assert.equal((await status()).source?.message, '');
});

test('an aborted source is as it was', async (t) => {
  const { sees, status, copying } = await agent(t, 'source');
  await sees('Copying', { target: { certificate: 'T' } });
  await sees('Freezing');
  assert.deepEqual(await sees('Aborting'), ['end offer to T', 'end copy of uid-old', 'unfence uid-old for uid-1']);
  const { fenced, readOnly, released } = (await status()).source ?? {};
  assert.deepEqual({ fenced, readOnly, released }, { fenced: false, readOnly: false, released: true });
  assert.equal(copying.offers.size, 0);
});

test('a source whose device class is not configured says so, and ends its part when the class is back', async (t) => {
  const { sees, done, status, copying, clock } = await agent(t, 'source');
  copying.notServed = new Error('volume uid-old is not on the disks of this node');
  assert.deepEqual(await sees('Aborting'), []);
  assert.equal((await status()).source?.message, 'volume uid-old is not on the disks of this node');
  assert.equal((await status()).source?.released, undefined);
  copying.notServed = undefined;
  clock.advance(60_000);
  assert.deepEqual(await done(), ['end copy of uid-old', 'unfence uid-old for uid-1']);
  assert.deepEqual([(await status()).source?.released, (await status()).source?.message], [true, '']);
});

const phases = movePhases.filter((phase) => !['Pending', 'Done', 'Aborted', 'Failed'].includes(phase));
const othersMarks = {
  'no mark': {},
  'the mark of another move': { 'moving.moorage.dev/another': 'source', 'moorage.dev/move': 'another' },
};
for (const [what, annotations] of Object.entries(othersMarks)) {
  test(`a move cannot take a volume with ${what}, whatever its status says`, async (t) => {
    const source = await agent(t, 'source');
    source.marksAre({ old: annotations });
    for (const phase of phases) {
      assert.deepEqual(await source.sees(phase, { target: { certificate: 'T' } }), [], phase);
      const { message = '', ...done } = (await source.status()).source ?? {};
      assert.deepEqual(done, {}, phase);
      assert.match(message, /^LogicalVolume old is not marked as the source of VolumeMove .*move, so nothing is done/);
    }
    source.marksAre(marks);
    assert.deepEqual(await source.sees('Copying', { message: 'the controller has marked it' }), ['offer uid-old to T']);

    const target = await agent(t, 'target');
    target.marksAre({ new: annotations });
    for (const phase of ['Copying', 'Freezing', 'Opening'] as const) {
      assert.deepEqual(await target.sees(phase, { source: { ...served, readOnly: true } }), [], phase);
      const { message = '', ...done } = (await target.status()).target ?? {};
      assert.deepEqual(done, {}, phase);
      assert.match(message, /^LogicalVolume new is not marked as the target of VolumeMove/);
    }
  });
}

const served = { certificate: 'S', endpoint: '10.0.0.2:7443' };

test('both ends begin when they learn of their volumes after the move, as after a restart', async (t) => {
  const source = await agent(t, 'source');
  source.forgetVolumes();
  assert.deepEqual(await source.sees('Copying', { target: { certificate: 'T' } }), []);
  assert.deepEqual(await source.learnVolumes(), ['offer uid-old to T']);

  const target = await agent(t, 'target');
  target.forgetVolumes();
  await target.sees('Copying', { source: served });
  assert.equal((await target.status()).target, undefined);
  await target.learnVolumes();
  assert.equal((await target.status()).target?.certificate, 'certificate-1');
});

test('a target pulls rounds until they are short, then the last one, and opens the volume', async (t) => {
  const { sees, done, status, copying, clock } = await agent(t, 'target');
  copying.durationMs = 60_000;
  copying.roundBytes = [1000, 100, 1, 7];
  assert.deepEqual(await sees('Copying'), [], 'the source does not serve yet');
  assert.equal((await status()).target?.certificate, 'certificate-1');

  const first = await sees('Copying', { source: served });
  assert.deepEqual(first, ['pull next into uid-new from 10.0.0.2:7443, S']);
  assert.deepEqual((await status()).target?.round, 1);
  assert.equal((await status()).target?.converged, undefined);
  copying.durationMs = 0;
  clock.advance(0);
  assert.equal((await done()).length, 1);
  const { round, copiedBytes, totalBytes, converged } = (await status()).target ?? {};
  assert.deepEqual(
    { round, copiedBytes, totalBytes, converged },
    { round: 2, copiedBytes: 100, totalBytes: 100, converged: true },
  );

  assert.deepEqual(await sees('Freezing'), [], 'the source is not read-only yet');
  assert.equal((await sees('Freezing', { source: { ...served, readOnly: true } }))[0]?.slice(0, 9), 'pull last');
  assert.deepEqual((await status()).target?.verdict, { round: 3, bytes: 1, sha256: 'hash-3' });
  assert.deepEqual(await sees('Opening'), ['open uid-new for uid-1']);
  assert.equal((await status()).target?.opened, true);
});

test('while the pods do not stop, a target pulls another round now and then', async (t) => {
  const { sees, done, clock } = await agent(t, 'target');
  await sees('Copying');
  await sees('Copying', { source: served });
  clock.advance(29_999);
  assert.deepEqual(await done(), []);
  clock.advance(1);
  assert.equal((await done()).length, 1);
});

test('an aborted target stops its pull', async (t) => {
  const { sees, status, copying } = await agent(t, 'target');
  const pulling = Promise.withResolvers<void>();
  copying.beforeEnd = () => pulling.promise;
  await sees('Copying');
  assert.equal((await sees('Copying', { source: served })).length, 1);
  await sees('Aborting');
  pulling.resolve();
  await settled();
  assert.equal((await status()).target?.converged, undefined);
  assert.equal((await status()).target?.message, undefined);
});

test('a target that cannot pull says why, and goes on', async (t) => {
  const { sees, done, status, copying, clock } = await agent(t, 'target');
  copying.beforeEnd = () => Promise.reject(new Error('no route to 10.0.0.2'));
  await sees('Copying');
  await sees('Copying', { source: served });
  assert.equal((await status()).target?.message, 'no route to 10.0.0.2');
  copying.beforeEnd = async () => undefined;
  clock.advance(1_000);
  assert.equal((await done()).length, 1);
  assert.equal((await status()).target?.message, '');
});

test('the source of a copy stays as it is, and its target pulls once', async (t) => {
  const source = await agent(t, 'source', { fill: 'new' });
  assert.deepEqual(await source.sees('Copying', { target: { certificate: 'T' } }), ['offer uid-old to T']);
  assert.deepEqual(await source.sees('Opening'), ['end offer to T']);
  assert.deepEqual(await source.sees('Cleaning'), ['end copy of uid-old']);
  assert.deepEqual((await source.status()).source?.released, true);

  const target = await agent(t, 'target', { fill: 'new' });
  await target.sees('Copying');
  assert.deepEqual(await target.sees('Copying', { source: served }), ['pull whole into uid-new from 10.0.0.2:7443, S']);
  assert.equal((await target.status()).target?.converged, true);
  target.clock.advance(60_000);
  assert.deepEqual(await target.done(), []);
  assert.deepEqual(await target.sees('Copying', { source: { ...served, certificate: 'S2' } }), []);
  assert.deepEqual(await target.sees('Opening'), ['open uid-new for uid-1']);
});

test('a copy has converged when its rounds are short, do not shrink, or are many', () => {
  const rounds = (...list: [number, number][]): readonly CopiedRound[] =>
    list.map(([sentBytes, durationMs]) => ({ sentBytes, durationMs }));
  const rows: readonly (readonly [readonly CopiedRound[], boolean])[] = [
    [rounds(), false],
    [rounds([1000, 60_000]), false],
    [rounds([1000, 2_000]), true],
    [rounds([1000, 60_000], [500, 30_000]), false],
    [rounds([1000, 60_000], [900, 54_000]), true],
    [rounds([1000, 60_000], [100, 3_000]), true],
    [rounds(...Array.from({ length: 8 }, (_, i): [number, number] => [2 ** (20 - i), 60_000])), true],
  ];
  for (const [list, expected] of rows) assert.equal(hasConverged(list), expected, JSON.stringify(list.length));
});

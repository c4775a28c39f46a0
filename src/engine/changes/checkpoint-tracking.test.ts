import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLog } from '../../base/testing/silent-log.ts';
import { BlockMap } from './block-map.ts';
import { type Checkpoint, type Checkpoints, CheckpointTracking, NoCheckpoints } from './checkpoint-tracking.ts';
import type { Position } from './position.ts';

const signal = new AbortController().signal;
const chunk = 64 * 1024;
const chunks = 8;
const sizeBytes = BigInt(chunks * chunk);
const volume = { id: 'data', sizeBytes, devicePath: '/dev/vg/data', tags: [], readOnly: false, attr: '-wi-a-----' };

/** Checkpoints in memory, named by the order of their creation. A change is a chunk that differs. */
class NumberedCheckpoints implements Checkpoints {
  readonly states = new Map<string, readonly number[]>();
  now: number[] = Array.from({ length: chunks }, () => 0);
  refuses: Error | undefined;

  async list(): Promise<readonly Checkpoint[]> {
    if (this.refuses) throw this.refuses;
    return [...this.states.keys()].map(asCheckpoint);
  }

  async create(id: string): Promise<Checkpoint> {
    this.states.set(id, [...this.now]);
    return asCheckpoint(id);
  }

  async remove(id: string): Promise<void> {
    this.states.delete(id);
  }

  async removeAll(): Promise<void> {
    this.states.clear();
  }

  async changes(from: Checkpoint, to: Checkpoint | undefined): Promise<BlockMap> {
    const [before, after] = [this.#stateOf(from), to ? this.#stateOf(to) : this.now];
    const map = new BlockMap(sizeBytes);
    for (const [index, is] of after.entries()) if (is !== before[index]) map.mark('data', index * chunk, chunk);
    return map;
  }

  async contents(): Promise<BlockMap> {
    return BlockMap.all(sizeBytes, 'data');
  }

  #stateOf({ id }: Checkpoint): readonly number[] {
    const state = this.states.get(id);
    if (!state) throw new Error(`no checkpoint ${id}`);
    return state;
  }
}

const at = (checkpoint: string, offset: number) => ({ checkpoint, offset, isFirst: false });
const asCheckpoint = (id: string): Checkpoint => ({ id, devicePath: `/dev/vg/${id}` });

function tracked() {
  const checkpoints = new NumberedCheckpoints();
  const tracking = () => new CheckpointTracking({ checkpoints, volume: () => volume, log: silentLog });
  return { checkpoints, tracking: tracking(), restarted: tracking };
}

const chunksIn = (blocks: BlockMap) =>
  [...blocks.runs()].flatMap(({ offset, length }) => {
    return Array.from({ length: length / chunk }, (_, index) => offset / chunk + index);
  });
const all = Array.from({ length: chunks }, (_, index) => index);

test('the first round has everything, later ones what changed, and the last one what changed since', async () => {
  const { checkpoints, tracking } = tracked();
  const first = await tracking.round('next', {}, signal);
  assert.deepEqual([first.base, chunksIn(first.blocks)], [undefined, all]);
  assert.equal(first.devicePath, `/dev/vg/${first.checkpoint}`);
  checkpoints.now[2] = 1;
  const second = await tracking.round('next', { complete: first.checkpoint }, signal);
  assert.deepEqual([second.base, chunksIn(second.blocks)], [first.checkpoint, [2]]);
  assert.equal(checkpoints.states.size, 2, 'the first is kept until the copy has the second');
  checkpoints.now[5] = 1;
  const third = await tracking.round('next', { complete: second.checkpoint }, signal);
  assert.deepEqual(chunksIn(third.blocks), [5]);
  assert.deepEqual([...checkpoints.states.keys()], [second.checkpoint, third.checkpoint]);
  checkpoints.now[6] = 1;
  const last = await tracking.round('last', { complete: third.checkpoint }, signal);
  assert.deepEqual([last.base, chunksIn(last.blocks)], [third.checkpoint, [6]]);
  assert.equal(last.devicePath, volume.devicePath);
  await tracking.end(signal);
  assert.equal(checkpoints.states.size, 0);
});

test('an interrupted round is resumed after a restart of the source', async () => {
  const { checkpoints, tracking, restarted } = tracked();
  const first = await tracking.round('next', {}, signal);
  const inFirst: Position = { partial: at(first.checkpoint, 3 * chunk) };
  assert.deepEqual(await restarted().round('next', inFirst, signal), first);
  checkpoints.now[2] = 1;
  const second = await tracking.round('next', { complete: first.checkpoint }, signal);
  checkpoints.now[3] = 1;
  const inSecond = { complete: first.checkpoint, partial: at(second.checkpoint, 0) };
  assert.deepEqual(await restarted().round('next', inSecond, signal), second);
});

test('a copy with parts of two checkpoints gets the changes of both in the last round', async () => {
  const { checkpoints, tracking } = tracked();
  const first = await tracking.round('next', {}, signal);
  checkpoints.now[2] = 1;
  const second = await tracking.round('next', { complete: first.checkpoint }, signal);
  checkpoints.now[2] = 0; // as in the first checkpoint, but the copy may have the second
  const copy = { complete: first.checkpoint, partial: at(second.checkpoint, 0) };
  assert.deepEqual(chunksIn((await tracking.round('last', copy, signal)).blocks), [2]);
});

test('an interrupted last round is repeated, as the volume has not changed', async () => {
  const { checkpoints, tracking, restarted } = tracked();
  const first = await tracking.round('next', {}, signal);
  checkpoints.now[4] = 1;
  const last = await tracking.round('last', { complete: first.checkpoint }, signal);
  const copy = { complete: first.checkpoint, partial: at(last.checkpoint, 0) };
  assert.deepEqual(chunksIn((await restarted().round('last', copy, signal)).blocks), [4]);
  const next = await restarted().round('next', copy, signal);
  assert.deepEqual([next.base, chunksIn(next.blocks)], [undefined, all], 'it may have changed before another round');
});

test('a copy at an unknown position gets everything', async () => {
  const unknown: readonly Position[] = [
    { complete: 'lost' },
    { partial: at('lost', 0) },
    { complete: 'known', partial: at('lost', 0) },
    { complete: 'lost', partial: at('known', 0) },
  ];
  for (const copy of unknown) {
    for (const kind of ['next', 'last'] as const) {
      const { checkpoints, tracking } = tracked();
      await checkpoints.create('known');
      const { base, blocks } = await tracking.round(kind, copy, signal);
      assert.deepEqual([base, chunksIn(blocks)], [undefined, all], `${kind} ${JSON.stringify(copy)}`);
    }
  }
});

test('a volume that is only copied once, such as a snapshot, needs no checkpoint', async () => {
  const { checkpoints, tracking } = tracked();
  const { blocks } = await tracking.round('last', {}, signal);
  assert.deepEqual([chunksIn(blocks), checkpoints.states.size], [all, 0]);
});

test('without checkpoints all is read in each round, and hashes of the copy are kept while its position is known', async () => {
  const { checkpoints, tracking } = tracked();
  const first = await tracking.round('next', {}, signal);
  checkpoints.refuses = new NoCheckpoints('for a test');
  const second = await tracking.round('next', { complete: first.checkpoint }, signal);
  assert.deepEqual([second.base, chunksIn(second.blocks), second.devicePath], [undefined, all, volume.devicePath]);
  assert.equal(checkpoints.states.size, 0, 'lost checkpoints are removed');
  const third = await tracking.round('next', { complete: second.checkpoint }, signal);
  assert.equal(third.base, second.checkpoint);
  assert.equal(third.hashes, second.hashes);
  const created = await tracking.round('next', {}, signal);
  assert.notEqual(created.hashes, second.hashes, 'the copy was created again');
});

test('a copy of one moment is a checkpoint of a volume that can be written, and can be resumed', async () => {
  const { checkpoints, tracking, restarted } = tracked();
  const { checkpoint, devicePath, blocks } = await tracking.round('whole', {}, signal);
  assert.deepEqual([devicePath, chunksIn(blocks)], [`/dev/vg/${checkpoint}`, all]);
  const resumed = await restarted().round('whole', { partial: at(checkpoint, 3 * chunk) }, signal);
  assert.equal(resumed.checkpoint, checkpoint);
  checkpoints.refuses = new NoCheckpoints('its volume group is full');
  await assert.rejects(tracking.round('whole', {}, signal), {
    code: 'FailedPrecondition',
    message: /^volume data cannot be copied as it is at one moment: its volume group is full; copy a snapshot of it/,
  });
  assert.equal(checkpoints.states.size, 0, 'the next attempt begins with a new checkpoint');
});

test('a snapshot is copied as it is, and can be resumed', async () => {
  const { checkpoints } = tracked();
  const snapshot = { ...volume, readOnly: true };
  const tracking = () => new CheckpointTracking({ checkpoints, volume: () => snapshot, log: silentLog });
  const { checkpoint, devicePath, blocks } = await tracking().round('whole', {}, signal);
  assert.deepEqual([devicePath, chunksIn(blocks), checkpoints.states.size], [volume.devicePath, all, 0]);
  const resumed = await tracking().round('whole', { partial: at(checkpoint, 3 * chunk) }, signal);
  assert.equal(resumed.checkpoint, checkpoint);
  checkpoints.contents = () => Promise.reject(new NoCheckpoints('thin_dump is missing'));
  assert.deepEqual(chunksIn((await tracking().round('whole', {}, signal)).blocks), all);
});

test('any other failure is no reason to read everything', async () => {
  const { checkpoints, tracking } = tracked();
  checkpoints.refuses = new Error('LVM hangs');
  await assert.rejects(tracking.round('next', {}, signal), /LVM hangs/);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualClock } from '../../base/testing/manual-clock.ts';
import { silentLog } from '../../base/testing/silent-log.ts';
import { Pools } from '../../engine/pools.ts';
import { InMemoryPool } from '../../engine/testing/in-memory-pool.ts';
import { AgentCopying } from './agent-copying.ts';

const never = new AbortController().signal;

async function node(...tags: readonly string[]) {
  const pool = new InMemoryPool('ssd', 1024n ** 3n);
  await pool.create({ id: 'v', sizeBytes: 4096n, tags });
  const closed: string[] = [];
  const close = async (id: string) => void closed.push(id);
  const common = { pools: new Pools([pool], 'ssd'), close, port: 7443, clock: new ManualClock(), log: silentLog };
  const volume = () => ({ tags: pool.get('v')?.tags, readOnly: pool.get('v')?.readOnly });
  return { volume, copying: new AgentCopying({ ...common, host: '10.0.0.1' }), common, closed };
}

test('a source is fenced and frozen, and only its own move opens it again', async () => {
  const { copying, volume, closed: unmounted } = await node('moorage.dev/created');
  for (let time = 0; time < 2; time++) {
    await copying.fence('v', 'one', never);
    await copying.freeze('v', never);
  }
  const closed = { tags: ['moorage.dev/created', 'moorage.dev/moving=one'], readOnly: true };
  assert.deepEqual(volume(), closed);
  assert.deepEqual(unmounted, ['v']);
  await copying.unfence('v', 'another', never);
  assert.deepEqual(volume(), closed);
  await copying.unfence('v', 'one', never);
  assert.deepEqual(volume(), { tags: ['moorage.dev/created'], readOnly: false });
});

test('a read-only volume that no move has fenced stays read-only', async () => {
  const { copying, volume } = await node();
  await copying.freeze('v', never);
  await copying.unfence('v', 'one', never);
  assert.equal(volume().readOnly, true);
});

test('a target is opened by its own move, and keeps the tags of its content', async () => {
  const content = ['moorage.dev/created', 'moorage.dev/raw'];
  const { copying, volume } = await node(...content, 'moorage.dev/receiving=one', 'moorage.dev/position=complete:1');
  await copying.open('v', 'another', never);
  assert.equal(volume().tags?.length, 4);
  await copying.open('v', 'one', never);
  assert.deepEqual(volume().tags, content);
});

test('other agents reach it at its address', async () => {
  const { copying, common } = await node();
  assert.equal(copying.endpoint, '10.0.0.1:7443');
  assert.equal(new AgentCopying({ ...common, host: 'fd00::1' }).endpoint, '[fd00::1]:7443');
});

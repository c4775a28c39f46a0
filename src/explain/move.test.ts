import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VolumeMove } from '../api/volume-move.ts';
import { explainClaim, explainPod } from './explain.ts';
import { claim } from './testing/objects.ts';
import { cluster, data, move, onB, owned, running } from './testing/situations.ts';

const moved = (status: VolumeMove['status'], spec: Partial<VolumeMove['spec']> = {}) => ({
  ...move,
  spec: { ...move.spec, ...spec },
  ...(status && { status }),
});
const ordered = (annotations: Record<string, string>) => claim('data', '20Gi', { ...owned, metadata: { annotations } });

test('a copy from another node shows how far it is, or what it waits for', () => {
  const copying = (status: VolumeMove['status']) =>
    explainClaim(data, cluster({ claims: [data], moves: [moved(status, { fill: 'pvc-1' })] })).sentence;
  const target = { copiedBytes: 1024 ** 3, totalBytes: 4 * 1024 ** 3 };
  assert.equal(
    copying({ phase: 'Copying', sourceNode: 'a', targetNode: 'b', target }),
    'claim data waits: its data is being copied from node a to node b (25 % of 4 GiB)',
  );
  assert.equal(
    copying({ phase: 'Pending', message: 'waits for VolumeMove prod/x, because node a has one move at a time' }),
    'claim data waits: its data is being copied (waits for VolumeMove prod/x, because node a has one move at a time)',
  );
});

test('a move that the controller has not begun says so', () => {
  const { status: _, ...begun } = move;
  const sentence = (spec: Partial<VolumeMove['spec']>) => {
    const moves = [{ ...begun, spec: { ...begun.spec, ...spec } }];
    return explainClaim(owned, cluster({ ...onB, claims: [owned], moves })).sentence;
  };
  assert.equal(
    sentence({}),
    "claim data waits: its move was ordered, and Moorage's controller has not begun; see whether the controller runs",
  );
  assert.match(
    sentence({ fill: 'pvc-1' }),
    /^claim data waits: its copy was ordered, and Moorage's controller has not/,
  );
});

test('a pod that runs says what its eviction waits for', () => {
  const leaving = ordered({ 'moorage.dev/delete': 'graceful', 'moorage.dev/leave': 'b@noon' });
  const known = cluster({ ...onB, claims: [leaving] });
  assert.equal(
    explainPod(running('db-0'), known).sentence,
    'pod db-0 waits: it runs, and its claim data waits: its operator was asked to leave node b at noon: no answer yet; claim and volume are deleted when the operator sets moorage.dev/left',
  );
});

test('an order says what is wrong with it, and nothing once it was acted on', () => {
  const sentence = (annotations: Record<string, string>) =>
    explainClaim(ordered(annotations), cluster({ ...onB, claims: [] })).sentence;
  assert.equal(
    sentence({ 'moorage.dev/delete': 'gently' }),
    'claim data waits: nothing is done about the order to release it: moorage.dev/delete is "gently"; use graceful or force',
  );
  for (const done of [
    { 'moorage.dev/delete-move': 'x' },
    { 'moorage.dev/leave': 'b@noon', 'moorage.dev/left': 'b@noon' },
  ]) {
    assert.match(sentence({ 'moorage.dev/delete': 'graceful', ...done }), /^claim data is fine/);
  }
});

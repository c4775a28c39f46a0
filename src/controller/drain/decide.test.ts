import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type OnDrain, onDrain } from '../../api/names.ts';
import type { MovePhase, StoredVolumeMove } from '../../api/volume-move.ts';
import { decide, mayReplace, moveName } from './decide.ts';
import type { DrainedPod, DrainedVolume } from './drained-pod.ts';

const nowMs = Date.parse('2026-01-10T12:00:00Z');
const minutesAgo = (minutes: number) => new Date(nowMs - minutes * 60_000).toISOString();

const volume = (change: Partial<DrainedVolume> = {}): DrainedVolume => ({
  claim: 'data-db-0',
  uid: 'claim-1',
  volumeName: 'pvc-1',
  handle: 'id-1',
  policy: undefined,
  tombstone: undefined,
  isDropping: false,
  drainedFrom: undefined,
  hasLeft: false,
  leaveState: undefined,
  moves: [],
  ...change,
});

const pod = (...volumes: DrainedVolume[]): DrainedPod => ({ namespace: 'prod', uid: 'pod-1', nodeName: 'a', volumes });

const own = moveName(volume());
function move(phase: MovePhase, change: Partial<StoredVolumeMove['status']> = {}, name = own, abort = false) {
  return {
    metadata: {
      name,
      namespace: 'prod',
      uid: `uid-${name}`,
      resourceVersion: '1',
      creationTimestamp: minutesAgo(60),
      ...(abort && { annotations: { 'moorage.dev/abort': 'true' } }),
    },
    spec: { claimName: 'data-db-0' },
    status: { phase, ...change },
  } satisfies StoredVolumeMove;
}

/** `pass`, what is given up, or the message, and what is started. */
function verdictOf(...volumes: DrainedVolume[]): string {
  const verdict = decide(pod(...volumes), nowMs);
  if (verdict.kind === 'pass') return 'pass';
  if (verdict.kind === 'drop') return `drop ${verdict.volumes.map(({ claim }) => claim).join(', ')}`;
  const started = verdict.departures.map((each) => `${each.kind} ${each.claim}`);
  return `${verdict.message} [${started.join(', ')}]`;
}

test('each policy answers, and starts what is missing', () => {
  const rows: readonly (readonly [DrainedVolume, string | RegExp])[] = [
    [volume(), 'pass'],
    [volume({ policy: 'wait' }), 'pass'],
    [
      volume({ policy: 'Move' }),
      'claim data-db-0: moorage.dev/on-drain is "Move"; use one of wait, move, delegate, drop []',
    ],
    [volume({ policy: 'drop' }), 'drop data-db-0'],
    [volume({ policy: 'drop', tombstone: 'graceful' }), 'drop data-db-0'],
    [volume({ policy: 'drop', tombstone: 'force' }), 'pass'],
    [volume({ policy: 'drop', moves: [move('Done')] }), 'drop data-db-0'],
    [volume({ policy: 'drop', moves: [move('Stopping', {}, 'of-a-person')] }), 'pass'],
    [volume({ policy: 'drop', moves: [move('Aborted', { pods: [{ name: 'db-0', uid: 'pod-1' }] })] }), 'pass'],
    [volume({ policy: 'delegate' }), /claim data-db-0: its operator is asked \[retire data-db-0\]$/],
    [volume({ policy: 'delegate', tombstone: 'graceful', leaveState: '3 left' }), /claim data-db-0: 3 left \[\]$/],
    [volume({ policy: 'delegate', tombstone: 'graceful', hasLeft: true }), 'pass'],
    [volume({ policy: 'delegate', hasLeft: true, leaveState: 'left' }), /its operator is asked \[retire data-db-0\]$/],
    [volume({ policy: 'delegate', tombstone: 'force' }), 'pass'],
    [volume({ policy: 'move' }), /claim data-db-0: the move is being created \[move data-db-0\]$/],
    [volume({ policy: 'move', handle: undefined }), /has a static volume, which cannot move; .*on-drain=wait \[\]$/],
  ];
  for (const [given, expected] of rows) {
    if (typeof expected === 'string') assert.equal(verdictOf(given), expected);
    else assert.match(verdictOf(given), expected);
  }
});

test('a volume that moves is waited for, also if a person has created the move', () => {
  const progress = { targetNode: 'b', message: 'copies', target: { round: 1, copiedBytes: 45, totalBytes: 100 } };
  const rows: readonly (readonly [StoredVolumeMove, string | RegExp])[] = [
    [
      move('Pending', { message: 'waits for its turn' }),
      /claim data-db-0 moves: Pending, waits for its turn; .* kubectl moorage abort data-db-0 -n prod \[\]$/,
    ],
    [move('Copying', progress), /claim data-db-0 moves to node b: Copying, round 1 45 %, copies \[\]$/],
    [move('Copying', progress, 'of-a-person'), /round 1 45 %, copies \[\]$/],
    [move('Stopping', { targetNode: 'b' }), /moves to node b: Stopping \[\]$/],
    // The move itself stops this pod.
    [move('Stopping', { pods: [{ name: 'db-0', uid: 'pod-1' }] }), 'pass'],
    [move('Freezing', { targetNode: 'b', pods: [{ name: 'db-0', uid: 'an-earlier-pod' }] }), /Freezing \[\]$/],
    [move('Aborting', { targetNode: 'b' }, own, true), /Aborting \[\]$/],
  ];
  for (const [given, expected] of rows) {
    const found = verdictOf(volume({ policy: 'move', moves: [given] }));
    if (typeof expected === 'string') assert.equal(found, expected);
    else assert.match(found, expected);
  }
});

test('a move that failed is tried again after a while; one that a person has aborted lets the drain go on for an hour', () => {
  const failed = (minutes: number) =>
    move('Failed', { message: 'the claim is not bound', completedAt: minutesAgo(minutes) });
  const of = (given: StoredVolumeMove) => verdictOf(volume({ policy: 'move', moves: [given] }));
  assert.match(
    of(failed(0)),
    /cannot move: the claim is not bound; to evict .* -n prod moorage.dev\/on-drain=wait \[\]$/,
  );
  assert.match(of(failed(1)), /\[move data-db-0\]$/);
  assert.equal(of(move('Aborted', { completedAt: minutesAgo(59) }, own, true)), 'pass');
  assert.match(of(move('Aborted', { completedAt: minutesAgo(61) }, own, true)), /\[move data-db-0\]$/);
  // Aborted by the move itself: nobody has said that the drain may go on.
  assert.match(
    of(move('Aborted', { message: 'the target is full', completedAt: minutesAgo(1) })),
    /the target is full.*\[move/,
  );
  // What a person did with a move of their own says nothing about the drain.
  assert.match(of(move('Aborted', { completedAt: minutesAgo(1) }, 'of-a-person', true)), /\[move data-db-0\]$/);
});

test('a move that is done, or goes on, is never replaced', () => {
  assert.equal(mayReplace(move('Done', { completedAt: minutesAgo(500) }), nowMs), false);
  assert.equal(mayReplace(move('Copying'), nowMs), false);
  assert.equal(mayReplace(move('Failed', { completedAt: minutesAgo(5) }), nowMs), true);
  const condition = { type: 'Succeeded', status: 'False', message: '', lastTransitionTime: minutesAgo(0) } as const;
  const ended = { completedAt: minutesAgo(0), conditions: [{ ...condition, reason: 'DrainEnded' }] };
  assert.equal(mayReplace(move('Failed', ended), nowMs), true); // another drain has begun
});

test('of several claims the strictest policy answers for the pod', () => {
  const of = (...policies: (string | undefined)[]) =>
    verdictOf(...policies.map((policy, i) => volume({ claim: `c${i}`, handle: `id-${i}`, policy })));
  assert.match(of('move', 'wait'), /\[move c0, move c1\]$/);
  assert.match(of('move', 'drop'), /\[move c0, move c1\]$/);
  assert.match(of('delegate', 'move', undefined), /\[retire c0\]$/);
  assert.equal(of('drop', undefined), 'pass'); // nothing is given up while another volume stays
  assert.equal(of('drop', 'drop'), 'drop c0, c1');
  assert.match(of('drop', 'nonsense'), /use one of .* \[\]$/);
});

test('of any two policies the more careful one decides; an unknown one stops the eviction', () => {
  const answers = {
    delegate: { delegate: 'ask', move: 'ask', wait: 'ask', drop: 'ask' },
    move: { delegate: 'ask', move: 'move', wait: 'move', drop: 'move' },
    wait: { delegate: 'ask', move: 'move', wait: 'pass', drop: 'pass' },
    drop: { delegate: 'ask', move: 'move', wait: 'pass', drop: 'drop' },
  } as const satisfies Record<OnDrain, Record<OnDrain, string>>;
  const texts = { ask: /its operator is asked/, move: /move c0, move c1/, pass: /^pass$/, drop: /^drop c0, c1$/ };
  const of = (a: string, b: string) =>
    verdictOf(volume({ claim: 'c0', policy: a }), volume({ claim: 'c1', handle: 'id-2', policy: b }));
  for (const a of onDrain.policies) {
    for (const b of onDrain.policies) assert.match(of(a, b), texts[answers[a][b]], `${a} and ${b}`);
    for (const answer of [of(a, 'archive'), of('archive', a)])
      assert.match(answer, /is "archive"; use one of .* \[\]$/);
  }
});

test('all replicas name a move alike, and another source has another move', () => {
  assert.equal(moveName({ claim: 'data', handle: 'id-1' }), moveName({ claim: 'data', handle: 'id-1' }));
  assert.notEqual(moveName({ claim: 'data', handle: 'id-1' }), moveName({ claim: 'data', handle: 'id-2' }));
  assert.match(moveName({ claim: 'x'.repeat(253), handle: 'id' }), /^drain-x{200}-[0-9a-f]{10}$/);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MovePhase, StoredVolumeMove, VolumeMoveStatus } from '../../api/volume-move.ts';
import { moveRows, moveTable } from './move-rows.ts';

function move(claimName: string, phase: MovePhase, status: VolumeMoveStatus = {}): StoredVolumeMove {
  const creationTimestamp = '2026-01-01T00:00:00Z';
  return {
    metadata: { name: `${claimName}-x`, namespace: 'prod', uid: claimName, resourceVersion: '1', creationTimestamp },
    spec: { claimName },
    status: { phase, sourceNode: 'a', targetNode: 'b', size: '10Gi', ...status },
  };
}

test('moves fit into 80 columns', () => {
  const gibi = 1024 ** 3;
  const long = { sourceNode: 'worker-pool-a-17', targetNode: 'worker-pool-b-23', size: '1023Gi' };
  const moves = [
    move('data-db-0', 'Done', {
      ...{ sourceNode: 'node-a', targetNode: 'node-b', message: 'moved from node node-a to node node-b' },
      ...{ stoppedAt: '2026-01-01T00:01:00Z', openedAt: '2026-01-01T00:01:07Z' },
    }),
    move('data-postgres-main-0', 'Copying', {
      ...{ ...long, message: 'copies what has changed' },
      target: { round: 12, copiedBytes: gibi / 4, totalBytes: 1023 * gibi },
    }),
    move('data-postgres-main-1', 'Committed', { ...long, message: 'waits until pod postgres-main-1 has stopped' }),
  ];
  for (const shown of [moves, ...moves.map((each) => [each])]) {
    for (const allNamespaces of [false, true]) {
      const style = { format: 'table', allNamespaces, nowMs: Date.parse('2026-01-01T00:02:00Z') } as const;
      const lines = moveTable(moveRows(shown), style, { columns: 80, colours: false }).split('\n');
      assert.ok(Math.max(...lines.map(({ length }) => length)) <= 80, lines.join('\n'));
      assert.match(lines[0] ?? '', allNamespaces ? /^NAMESPACE  CLAIM .*  MESSAGE$/ : /^CLAIM .*  MESSAGE$/);
    }
  }
});

test('moves are shown with their progress and pause, those under way first', () => {
  const gibi = 1024 ** 3;
  const rows = moveRows([
    move('done', 'Done', { stoppedAt: '2026-01-01T00:01:00Z', openedAt: '2026-01-01T00:01:07Z', message: 'moved' }),
    move('second', 'Copying', { target: { round: 2, copiedBytes: gibi / 4, totalBytes: gibi } }),
    move('first', 'Copying', { target: { round: 1, copiedBytes: 5 * gibi, totalBytes: 10 * gibi } }),
    move('stuck', 'Stopping', { message: 'waits until pod x has stopped' }),
  ]);
  const style = { format: 'table', allNamespaces: true, nowMs: Date.parse('2026-01-01T00:02:00Z') } as const;
  const lines = moveTable(rows, style, { columns: undefined, colours: false }).split('\n');
  assert.deepEqual(
    lines.slice(1).map((line) => line.replaceAll(/ {2,}/g, '  ')),
    [
      'prod  first  a  b  10 GiB  Copying  ████░░░░  50% of 10 GiB  2m',
      'prod  second  a  b  10 GiB  Copying  ██░░░░░░  25% of 1 GiB, round 2  2m',
      'prod  stuck  a  b  10 GiB  Stopping  ░░░░░░░░  2m  waits until pod x has stopped',
      'prod  done  a  b  10 GiB  Done  ████████ 100%  7s  2m  moved',
    ],
  );
});

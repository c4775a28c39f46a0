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

test('moves are shown with their progress and pause, those under way first', () => {
  const gibi = 1024 ** 3;
  const rows = moveRows([
    move('done', 'Done', { stoppedAt: '2026-01-01T00:01:00Z', openedAt: '2026-01-01T00:01:07Z', message: 'moved' }),
    move('second', 'Copying', { target: { round: 2, copiedBytes: gibi / 4, totalBytes: gibi } }),
    move('first', 'Copying', { target: { round: 1, copiedBytes: 5 * gibi, totalBytes: 10 * gibi } }),
    move('stuck', 'Stopping', { message: 'waits until pods x have stopped' }),
  ]);
  const style = { format: 'table', allNamespaces: true, nowMs: Date.parse('2026-01-01T00:02:00Z') } as const;
  const lines = moveTable(rows, style, { columns: undefined, colours: false }).split('\n');
  assert.deepEqual(
    lines.slice(1).map((line) => line.replaceAll(/ {2,}/g, '  ')),
    [
      'prod  first  a  b  10 GiB  Copying  ████░░░░  50% of 10 GiB  2m',
      'prod  second  a  b  10 GiB  Copying  ██░░░░░░  25% of 1 GiB, round 2  2m',
      'prod  stuck  a  b  10 GiB  Stopping  ░░░░░░░░  2m  waits until pods x have stopped',
      'prod  done  a  b  10 GiB  Done  ████████ 100%  7s  2m  moved',
    ],
  );
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newLvmCounts } from '../engine/lvm/lvm.ts';
import { lvmMetrics } from './engine-metrics.ts';
import { exposition } from './metric.ts';

test('LVM commands are counted by how they were run, and lost shells too', async () => {
  const counts = newLvmCounts();
  const shown = lvmMetrics(() => counts);
  counts.commands.shell += 5;
  counts.commands.exec += 2;
  counts.shellRestarts++;
  const text = await exposition(shown);
  assert.match(text, /^moorage_lvm_commands_total\{way="shell"\} 5$/m);
  assert.match(text, /^moorage_lvm_commands_total\{way="exec"\} 2$/m);
  assert.match(text, /^moorage_lvm_shell_restarts_total 1$/m);
  assert.match(text, /^moorage_lvm_shell_failures_total 0$/m);
});

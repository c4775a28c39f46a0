import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newLvmFigures } from '../engine/lvm/lvm-figures.ts';
import { exposition } from './exposition.ts';
import { lvmMetrics } from './lvm-metrics.ts';

test('LVM commands are counted by how they were run, and lost shells too', async () => {
  const figures = newLvmFigures();
  const shown = lvmMetrics(() => figures);
  figures.commands.shell += 5;
  figures.commands.exec += 2;
  figures.shellRestarts++;
  const text = await exposition(shown);
  assert.match(text, /^moorage_lvm_commands_total\{way="shell"\} 5$/m);
  assert.match(text, /^moorage_lvm_commands_total\{way="exec"\} 2$/m);
  assert.match(text, /^moorage_lvm_shell_restarts_total 1$/m);
  assert.match(text, /^moorage_lvm_shell_failures_total 0$/m);
});

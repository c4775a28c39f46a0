import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { newLvmFigures } from '../storage/lvm/lvm-figures.ts';
import { lvmMetrics } from './lvm-metrics.ts';

test('LVM commands are counted by the way they went, and lost shells', async () => {
  const figures = newLvmFigures();
  const registry = new Registry();
  for (const metric of lvmMetrics(() => figures)) registry.registerMetric(metric);
  figures.commands.shell += 5;
  figures.commands.exec += 2;
  figures.shellRestarts++;
  const text = await registry.metrics();
  assert.match(text, /^moorage_lvm_commands_total\{way="shell"\} 5$/m);
  assert.match(text, /^moorage_lvm_commands_total\{way="exec"\} 2$/m);
  assert.match(text, /^moorage_lvm_shell_restarts_total 1$/m);
  assert.match(text, /^moorage_lvm_shell_failures_total 0$/m);
});

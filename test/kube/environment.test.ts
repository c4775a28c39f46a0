import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { Component } from '../../worlds/cluster/component.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { hostileEnvironment } from '../../worlds/host/hostile-environment.ts';
import { WhyWorld } from './why-world.ts';

Object.assign(process.env, hostileEnvironment);
const world = await WhyWorld.start('shop');

test('a volume is provisioned whatever the user has exported: each program uses its own kubeconfig', async () => {
  await world.node('a');
  await world.volume('data', 'a');
});

test('a program of a cluster gets no variable of the user', async () => {
  const { namespaces, dir } = world.cluster;
  const printer = new Component(namespaces, join(dir, 'logs'), 'env', ['env', '--null'], { OWN: 'yes' });
  printer.start();
  const names = await eventually('the program has printed its environment', async () => {
    const printed = (await readFile(printer.logFile, 'utf8')).split('\0').slice(0, -1);
    return printed.length > 0 && printed.map((line) => line.split('=')[0]);
  });
  assert.deepEqual(new Set(names), new Set(['HOME', 'LANG', 'OWN', 'PATH', 'TMPDIR']));
});

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../base/clock.ts';
import { run } from '../base/exec.ts';
import { silentLog } from '../base/testing/silent-log.ts';
import { InMemoryPool } from '../engine/testing/in-memory-pool.ts';
import { servingEngine } from '../lvmd/testing/serving-engine.ts';
import { embeddedEngine, remoteEngine } from './node-engine.ts';

const { signal } = new AbortController();
const collaborators = {
  stateDirectory: '/nowhere',
  run,
  env: {},
  onAnswered: () => undefined,
  clock: systemClock,
  log: silentLog,
};

test('the capacity of a remote lvmd is published by class, and again for its default class', async (t) => {
  const { socketPath } = await servingEngine(t, [new InMemoryPool('ssd', 1000n), new InMemoryPool('hdd', 50n)]);
  const engine = await remoteEngine({ ...collaborators, configFile: '', lvmdSocket: socketPath }, signal);
  t.after(() => engine.stop());
  assert.deepEqual(Object.fromEntries(engine.annotations()), {
    'capacity.topolvm.io/00default': '1000',
    'capacity.topolvm.io/hdd': '50',
    'capacity.topolvm.io/ssd': '1000',
  });
});

test('an embedded engine without a configuration starts without device classes', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'node-engine-'));
  t.after(() => rm(directory, { recursive: true }));
  const options = { ...collaborators, configFile: '', lvmdSocket: join(directory, 'lvmd.sock') };
  const engine = await embeddedEngine(options, signal);
  t.after(async () => {
    await engine.stopServing(0);
    await engine.stop();
  });
  assert.deepEqual([engine.pools.all(), engine.deviceClasses(), [...engine.annotations()]], [[], [], []]);
  await assert.rejects(engine.serveGroups(new Set(['../vg']), signal), { name: 'InvalidInput' });
});

test('a volume group behind a remote lvmd is served by a class of that lvmd', async (t) => {
  const { socketPath } = await servingEngine(t, [new InMemoryPool('ssd', 1000n)]);
  const engine = await remoteEngine({ ...collaborators, configFile: '', lvmdSocket: socketPath }, signal);
  t.after(() => engine.stop());
  await engine.serveGroups(new Set(['vg-ssd', 'other']), signal);
  assert.equal(engine.poolOfGroup('vg-ssd').name, 'ssd');
  assert.throws(() => engine.poolOfGroup('other'), { message: /add one to the configuration of the lvmd/ });
});

test('the embedded engine is not started if an lvmd already answers', async (t) => {
  const { socketPath } = await servingEngine(t, [new InMemoryPool('ssd', 1n)]);
  const options = { ...collaborators, configFile: '/nowhere/that/it/would/look', lvmdSocket: socketPath };
  await assert.rejects(embeddedEngine(options, signal), { name: 'SocketTaken', message: /stop it first/ });
});

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { eventually } from '../../../worlds/host/eventually.ts';
import { ManualClock } from '../../base/testing/manual-clock.ts';
import { AgentTurn } from './agent-turn.ts';

const { signal } = new AbortController();

async function socketPath(t: TestContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'moorage-agents-'));
  t.after(() => rm(directory, { recursive: true }));
  return join(directory, 'csi.sock');
}

/** Returns how to stop. */
async function serve(csiSocket: string): Promise<() => void> {
  const connections: Socket[] = [];
  const server = createServer((connection) => connections.push(connection.on('error', () => undefined)));
  server.listen(csiSocket);
  await once(server, 'listening');
  return () => {
    server.close();
    for (const connection of connections) connection.destroy();
  };
}

test('an agent of a version without turns gets time to stop', async (t) => {
  const csiSocket = await socketPath(t);
  const clock = new ManualClock();
  const endOlder = await serve(csiSocket);
  const turn = await AgentTurn.take(csiSocket, clock, signal);
  t.after(() => turn.end());
  assert.equal(turn.isFirst, false);
  let hasCome = false;
  const comes = turn.comes(signal).then(() => {
    hasCome = true;
  });
  endOlder();
  await eventually('the agent has seen that the socket is closed', async () => clock.timers === 1);
  clock.advance(29_999);
  assert.equal(hasCome, false);
  clock.advance(1);
  await comes;
});

test('an agent that takes turns is waited for only until it ends its turn', async (t) => {
  const csiSocket = await socketPath(t);
  const clock = new ManualClock();
  const first = await AgentTurn.take(csiSocket, clock, signal);
  assert.equal(first.isFirst, true);
  const stopServing = await serve(csiSocket);
  const second = await AgentTurn.take(csiSocket, clock, signal);
  t.after(() => second.end());
  assert.equal(second.isFirst, false);
  let hasCome = false;
  const comes = second.comes(signal).then(() => {
    hasCome = true;
  });
  stopServing();
  assert.equal(hasCome, false, 'the first agent has not finished its work yet');
  first.end();
  await comes;
  assert.equal(clock.timers, 0);
});

test('the next agent in line also waits for an older agent that is still stopping', async (t) => {
  const csiSocket = await socketPath(t);
  const clock = new ManualClock();
  const endOlder = await serve(csiSocket);
  const first = await AgentTurn.take(csiSocket, clock, signal);
  const second = await AgentTurn.take(csiSocket, clock, signal);
  t.after(() => second.end());
  const leave = new AbortController();
  const firstComes = first.comes(leave.signal);
  let hasCome = false;
  const comes = second.comes(signal).then(() => {
    hasCome = true;
  });
  endOlder();
  await eventually('the first agent gives the older one time to stop', async () => clock.timers === 1);
  leave.abort();
  await assert.rejects(firstComes);
  first.end();
  await eventually('now the second agent does', async () => clock.timers === 1);
  clock.advance(29_999);
  assert.equal(hasCome, false);

  const again = await AgentTurn.take(csiSocket, clock, signal);
  assert.equal(again.isFirst, false, 'as when the first agent was killed and restarts');
  again.end();
  clock.advance(1);
  await comes;
  second.end();
  const last = await AgentTurn.take(csiSocket, clock, signal);
  t.after(() => last.end());
  assert.equal(last.isFirst, true, 'the older agent has stopped');
});

test('a path that would be too long for the sockets of standby agents is refused', async () => {
  const csiSocket = `/run/${'x'.repeat(100)}/csi.sock`;
  await assert.rejects(AgentTurn.take(csiSocket, new ManualClock(), signal), {
    name: 'InvalidInput',
    message: /^--csi-socket .* is too long; use a path of at most 87 bytes$/,
  });
});

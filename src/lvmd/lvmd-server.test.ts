import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { mustBeOnlyLvmd } from './lvmd-server.ts';

test('an engine starts only if it is certain that no other one runs', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'moorage-lvmd-'));
  t.after(() => rm(directory, { recursive: true }));
  const socket = join(directory, 'lvmd.sock');
  await mustBeOnlyLvmd(socket);

  const other = createServer().listen(socket);
  t.after(() => other.close());
  await assert.rejects(mustBeOnlyLvmd(socket), { name: 'SocketTaken' });

  const unknown = join(directory, 'x'.repeat(120)); // too long for a socket, so whether one listens is unknown
  await assert.rejects(mustBeOnlyLvmd(unknown), { name: 'ListenerUnknown', message: /check whether it hangs$/ });
});

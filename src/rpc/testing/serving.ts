import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { DescService } from '@bufbuild/protobuf';
import { systemClock } from '../../base/clock.ts';
import { silentLog } from '../../base/testing/silent-log.ts';
import { type Methods, RpcClient } from '../client.ts';
import { type Implementation, RpcServer } from '../server.ts';

interface Serving<S extends DescService> {
  readonly methods: Methods<S>;
  readonly server: RpcServer;
}

/** For tests: serves an implementation on a real socket for as long as the test runs, and calls it. */
export async function serving<S extends DescService>(
  t: TestContext,
  service: S,
  implementation: Implementation<S>,
  log = silentLog,
): Promise<Methods<S>> {
  return (await startServing(t, service, implementation, log)).methods;
}

/** The same, for tests that stop the server themselves. */
export async function startServing<S extends DescService>(
  t: TestContext,
  service: S,
  implementation: Implementation<S>,
  log = silentLog,
): Promise<Serving<S>> {
  const directory = await mkdtemp(join(tmpdir(), 'moorage-'));
  const socketPath = join(directory, 'csi.sock');
  const server = new RpcServer({ socketPath, clock: systemClock, log }).add(service, implementation);
  await server.listen();
  const client = new RpcClient(service, socketPath);
  t.after(async () => {
    client[Symbol.dispose]();
    await server.stop(0);
    await rm(directory, { recursive: true });
  });
  return { methods: client.methods, server };
}

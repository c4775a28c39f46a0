import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { spawn } from '../host/processes.ts';
import type { Namespaces } from './namespaces.ts';

/** Makes an address inside the namespaces reachable on a loopback port of the host; returns that port. */
export async function forwardPort(namespaces: Namespaces, inside: { host: string; port: number }): Promise<number> {
  const listener = createServer();
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address() as AddressInfo;
  const { fd } = (listener as unknown as { _handle: { fd: number } })._handle;
  const forward = [process.execPath, join(import.meta.dirname, 'forward.ts'), inside.host, String(inside.port)];
  const [command = '', ...args] = [...namespaces.enter, ...forward];
  const child = spawn(command, args, { detached: true, stdio: ['ignore', 'ignore', 'ignore', fd] });
  child.unref();
  listener.close(); // ours only; the forwarder has inherited the socket
  return port;
}

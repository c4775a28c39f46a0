import { connect, type Socket } from 'node:net';
import { abortable } from '../base/abortable.ts';

/** Why nobody can be reached on a unix socket (`ENOENT`, `ECONNREFUSED`, `EACCES`…); undefined if somebody answers. */
export async function whyNoAnswer(socketPath: string): Promise<string | undefined> {
  const connection = await connectionTo(socketPath);
  if (typeof connection === 'string') return connection;
  connection.destroy();
  return undefined;
}

/** Waits until nobody can be reached there: who answers now has stopped to listen, or its process has ended. */
export async function untilClosed(socketPath: string, signal: AbortSignal): Promise<void> {
  for (;;) {
    const connection = await connectionTo(socketPath);
    if (typeof connection === 'string') return;
    try {
      await abortable(new Promise((closed) => connection.once('close', closed)), signal);
    } finally {
      connection.destroy();
    }
  }
}

/** Or why there is none. */
function connectionTo(socketPath: string): Promise<Socket | string> {
  return new Promise((resolve) => {
    const connection = connect(socketPath);
    connection.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    connection.once('connect', () => resolve(connection.resume()));
  });
}

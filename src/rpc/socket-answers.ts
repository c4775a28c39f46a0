import { connect, type Socket } from 'node:net';
import { abortable } from '../base/abortable.ts';

/** Why nobody can be reached on a unix socket (`ENOENT`, `ECONNREFUSED`, `EACCES`…); undefined if somebody answers. */
export async function whyNoAnswer(socketPath: string): Promise<string | undefined> {
  const connection = await connectionTo(socketPath);
  if (connection instanceof Error) return connection.code ?? connection.message;
  connection.destroy();
  return undefined;
}

/** Whether nobody listens there for sure: that we cannot connect for a reason of our own says nothing of that. */
export async function nobodyListens(socketPath: string): Promise<boolean> {
  const why = await whyNoAnswer(socketPath);
  return why === 'ENOENT' || why === 'ECONNREFUSED';
}

/** Waits until whoever answers there closes the connection, or its process has ended. */
export async function untilClosed(socketPath: string, signal: AbortSignal): Promise<void> {
  const connection = await connectionTo(socketPath);
  if (connection instanceof Error) return;
  try {
    await abortable(new Promise((closed) => connection.once('close', closed)), signal);
  } finally {
    connection.destroy();
  }
}

/** Or why there is none. */
function connectionTo(socketPath: string): Promise<Socket | NodeJS.ErrnoException> {
  return new Promise((resolve) => {
    const connection = connect(socketPath);
    connection.on('error', resolve); // once it is connected, its end tells the same
    connection.once('connect', () => resolve(connection.resume()));
  });
}

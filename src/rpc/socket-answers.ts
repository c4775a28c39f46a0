import { connect, type Socket } from 'node:net';
import { abortable } from '../base/abortable.ts';
import { MoorageError } from '../base/errors.ts';

/** Why nobody can be reached on a unix socket (`ENOENT`, `ECONNREFUSED`, `EACCES`…); undefined if somebody answers. */
export async function whyNoAnswer(socketPath: string): Promise<string | undefined> {
  const connection = await connectionTo(socketPath);
  if (connection instanceof Error) return connection.code ?? connection.message;
  connection.destroy();
  return undefined;
}

/** Whether nobody listens there, for sure. */
export async function nobodyListens(socketPath: string): Promise<boolean> {
  const listener = await listenerAt(socketPath);
  listener?.destroy();
  return listener === undefined;
}

/** Waits until whoever listens there closes the connection, or its process has ended. */
export async function untilClosed(socketPath: string, signal: AbortSignal): Promise<void> {
  const listener = await listenerAt(socketPath);
  if (!listener) return;
  try {
    await abortable(new Promise((closed) => listener.once('close', closed)), signal);
  } finally {
    listener.destroy();
  }
}

/** That we cannot connect for any other reason does not say that nobody is there. */
async function listenerAt(socketPath: string): Promise<Socket | undefined> {
  const connection = await connectionTo(socketPath);
  if (!(connection instanceof Error)) return connection;
  if (connection.code === 'ENOENT' || connection.code === 'ECONNREFUSED') return undefined;
  if (connection.code === 'ECONNRESET') return listenerAt(socketPath); // it was closed while we came
  throw new ListenerUnknown(socketPath, connection);
}

/** Or why there is none. */
function connectionTo(socketPath: string): Promise<Socket | NodeJS.ErrnoException> {
  return new Promise((resolve) => {
    const connection = connect(socketPath);
    connection.on('error', resolve); // once it is connected, its end tells the same
    connection.once('connect', () => resolve(connection.resume()));
  });
}

export class ListenerUnknown extends MoorageError {
  readonly code = 'Unavailable';

  constructor(socketPath: string, cause: Error) {
    super(`whether anybody serves ${socketPath} cannot be told: ${cause.message}; see whether its process hangs`, {
      cause,
    });
  }
}

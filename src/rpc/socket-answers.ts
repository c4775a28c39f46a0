import { connect, type Socket } from 'node:net';
import { abortable } from '../base/abortable.ts';
import { MoorageError } from '../base/errors.ts';

/** Why a unix socket does not answer (`ENOENT`, `ECONNREFUSED`, `EACCES`…); undefined if it does. */
export async function whyNoAnswer(socketPath: string): Promise<string | undefined> {
  const connection = await connectionTo(socketPath);
  if (connection instanceof Error) return connection.code ?? connection.message;
  connection.destroy();
  return undefined;
}

/** True only if it is certain that nobody listens there. */
export async function nobodyListens(socketPath: string): Promise<boolean> {
  const listener = await listenerAt(socketPath);
  listener?.destroy();
  return listener === undefined;
}

/** Waits until the listener closes the connection or its process exits. */
export async function untilClosed(socketPath: string, signal: AbortSignal): Promise<void> {
  const listener = await listenerAt(socketPath);
  if (!listener) return;
  try {
    await abortable(new Promise((closed) => listener.once('close', closed)), signal);
  } finally {
    listener.destroy();
  }
}

/** Any other reason for a failed connection does not mean that nobody listens. */
async function listenerAt(socketPath: string): Promise<Socket | undefined> {
  const connection = await connectionTo(socketPath);
  if (!(connection instanceof Error)) return connection;
  if (connection.code === 'ENOENT' || connection.code === 'ECONNREFUSED') return undefined;
  if (connection.code === 'ECONNRESET') return listenerAt(socketPath); // it was closed while we connected
  throw new ListenerUnknown(socketPath, connection);
}

/** The connection, or why there is none. */
function connectionTo(socketPath: string): Promise<Socket | NodeJS.ErrnoException> {
  return new Promise((resolve) => {
    const connection = connect(socketPath);
    connection.on('error', resolve); // after connecting, its end reports the same
    connection.once('connect', () => resolve(connection.resume()));
  });
}

export class ListenerUnknown extends MoorageError {
  readonly code = 'Unavailable';

  constructor(socketPath: string, cause: Error) {
    super(`cannot determine whether a process serves ${socketPath}: ${cause.message}; check whether it hangs`, {
      cause,
    });
  }
}

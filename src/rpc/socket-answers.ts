import { connect } from 'node:net';

/** Why nobody can be reached on a unix socket (`ENOENT`, `ECONNREFUSED`, `EACCES`…); undefined if somebody answers. */
export function whyNoAnswer(socketPath: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const connection = connect(socketPath);
    connection.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    connection.once('connect', () => {
      connection.destroy();
      resolve(undefined);
    });
  });
}

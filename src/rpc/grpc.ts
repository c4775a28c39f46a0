import { resolve } from 'node:path';
import { logVerbosity, setLogVerbosity } from '@grpc/grpc-js';

// grpc-js would write text into our JSON log; its errors reach a caller anyway.
setLogVerbosity(logVerbosity.NONE);

/** The address of a unix socket for grpc-js. */
export function addressOf(socketPath: string): string {
  return `unix:${resolve(socketPath)}`;
}

/** grpc-js transports bytes: we encode and decode them ourselves, so that errors have our own codes and messages. */
export function asIs(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

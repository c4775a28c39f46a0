import { resolve } from 'node:path';
import { logVerbosity, setLogVerbosity } from '@grpc/grpc-js';

// It would write text among the JSON of our log; each of its errors reaches a caller, too.
setLogVerbosity(logVerbosity.NONE);

/** A unix socket as grpc-js names it. */
export function addressOf(socketPath: string): string {
  return `unix:${resolve(socketPath)}`;
}

/** grpc-js transports bytes: we encode and decode them ourselves, so that what goes wrong has our own code and words. */
export function asIs(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

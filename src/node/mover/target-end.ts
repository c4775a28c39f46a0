import { connect, type TLSSocket } from 'node:tls';
import { systemClock } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import { run } from '../../base/exec.ts';
import type { RoundKind } from '../../engine/changes/change-tracking.ts';
import type { Position } from '../../engine/changes/position.ts';
import type { Certificate } from '../../http/self-signed.ts';
import { Connection, type ConnectionOptions } from './connection.ts';
import { PeerLost, PeerRefused, SourceFailed, TargetTooSmall } from './errors.ts';
import { decodeHeader } from './frames.ts';
import { type Begin, parseSourceMessage } from './messages.ts';
import { type Received, RoundReceiver, type TargetDevice } from './receive-round.ts';

const connectTimeoutMs = 10_000;

/** A round to pull, in a form that can pass from one thread to another. */
export interface PullRequest {
  readonly pullId: number;
  readonly moveUid: string;
  readonly host: string;
  readonly port: number;
  readonly own: Certificate;
  /** The only certificate that is accepted. */
  readonly peerCertificate: string;
  readonly kind: RoundKind;
  readonly position: Position;
  readonly device: Omit<TargetDevice, 'isZeroed'> & { readonly isNewZeroed: boolean };
  readonly bytesPerSecond?: number;
}

export interface PullResult extends Received {
  readonly checkpoint: string;
}

/** What this end needs from the agent. */
export interface TargetAgent {
  /** Records the position and the tags durably, before the first byte is written. */
  begin(begun: {
    readonly pullId: number;
    readonly position: Position;
    readonly tags: readonly string[];
    readonly changedBytes: number;
  }): Promise<void>;
  reached(reached: { readonly pullId: number; readonly offset: number; readonly doneBytes: number }): Promise<void>;
}

/** Pulls one round, and returns when it is on the disk. */
export async function pull(
  request: PullRequest,
  agent: TargetAgent,
  signal: AbortSignal,
  options: ConnectionOptions & { readonly flushMs?: number } = {},
): Promise<PullResult> {
  const { pullId, kind, position, bytesPerSecond, device } = request;
  const connection = new Connection(await connected(request, signal), peerOf(request), options);
  const abort = () => connection.fail(signal.reason as Error);
  signal.addEventListener('abort', abort, { once: true });
  try {
    connection.tell({ type: 'pull', kind, position: { ...position }, ...(bytesPerSecond && { bytesPerSecond }) });
    const { checkpoint, base, fromOffset, sizeBytes, changedBytes, tags } = await beginOf(connection);
    if (sizeBytes > device.sizeBytes) throw new TargetTooSmall(device.path, device.sizeBytes, sizeBytes);
    const isFirst = isFirstRound(position, checkpoint);
    const partial = { checkpoint, offset: fromOffset, isFirst };
    await agent.begin({ pullId, position: { ...(base && { complete: base }), partial }, tags, changedBytes });
    const received = await new RoundReceiver({
      connection,
      target: { path: device.path, sizeBytes, isSparse: device.isSparse, isZeroed: device.isNewZeroed && isFirst },
      verifies: kind === 'last',
      onReached: (reached) => {
        agent.reached({ pullId, ...reached }).catch((error: Error) => connection.fail(error));
      },
      run,
      ...(options.flushMs && { flushMs: options.flushMs }),
    }).receive();
    await connection.close();
    return { checkpoint, ...received };
  } catch (error) {
    connection.fail(error as Error);
    throw error;
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/** Whether the target has nothing but parts of this checkpoint. */
function isFirstRound({ complete, partial }: Position, checkpoint: string): boolean {
  if (complete !== undefined) return false;
  return partial === undefined || (partial.isFirst && partial.checkpoint === checkpoint);
}

function peerOf({ host, port }: PullRequest): string {
  return `${host}:${port}`;
}

async function connected(request: PullRequest, signal: AbortSignal): Promise<TLSSocket> {
  const { host, port, moveUid, own, peerCertificate } = request;
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<TLSSocket>();
  const socket = connect({
    ...{ host, port, servername: moveUid, ...own, ca: peerCertificate, minVersion: 'TLSv1.3' },
    checkServerIdentity: () => undefined, // the certificate itself is the identity
  });
  const abort = () => reject(signal.reason as Error);
  const late = () => reject(new PeerLost(peerOf(request), `it did not answer for ${connectTimeoutMs / 1000} s`));
  const timer = systemClock.setTimer(late, connectTimeoutMs);
  socket.once('secureConnect', () => resolve(socket));
  socket.once('error', (error: NodeJS.ErrnoException) => reject(whyNotConnected(request, error)));
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await promise;
  } catch (error) {
    socket.destroy();
    throw error;
  } finally {
    timer.cancel();
    signal.removeEventListener('abort', abort);
    socket.removeAllListeners('error');
    socket.on('error', () => undefined); // whoever uses the connection listens too
  }
}

function whyNotConnected(request: PullRequest, error: NodeJS.ErrnoException): Error {
  const isNetwork = error.syscall !== undefined || error.code === 'ECONNRESET';
  if (isNetwork) return new PeerLost(peerOf(request), messageOf(error), error);
  return new PeerRefused(peerOf(request), error);
}

async function beginOf(connection: Connection): Promise<Begin> {
  for (;;) {
    const { length } = decodeHeader(await connection.readHeader());
    const text = Buffer.alloc(length);
    await connection.read(text);
    const message = parseSourceMessage(text);
    if (message.type === 'failed') throw new SourceFailed(connection.peer, message.message);
    if (message.type === 'refused') throw new PeerRefused(connection.peer);
    if (message.type === 'begin') return message;
  }
}

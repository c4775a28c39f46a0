import { constants, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createSecureContext, createServer, type SecureContext, type Server, type TLSSocket } from 'node:tls';
import { messageOf } from '../../base/errors.ts';
import { BlockMap } from '../../engine/changes/block-map.ts';
import type { RoundKind } from '../../engine/changes/change-tracking.ts';
import { KnownHashes } from '../../engine/changes/known-hashes.ts';
import type { CheckpointId, Position } from '../../engine/changes/position.ts';
import type { Certificate } from '../../http/self-signed.ts';
import { Connection, type ConnectionOptions } from './connection.ts';
import { decodeHeader } from './frames.ts';
import { type Pull, parseTargetMessage, type TargetMessage } from './messages.ts';
import { RoundSender } from './send-round.ts';

const handshakeTimeoutMs = 10_000;
/** More than any honest target needs. */
const maxConnections = 32;

/** A volume that one target may pull. */
export interface OfferedMove {
  readonly moveUid: string;
  readonly port: number;
  readonly own: Certificate;
  /** The only certificate that is accepted. */
  readonly peerCertificate: string;
}

export interface RoundRequest {
  readonly moveUid: string;
  readonly kind: RoundKind;
  readonly position: Position;
}

/** A round, in a form that can pass from one thread to another. */
export interface RoundOfMove {
  readonly checkpoint: CheckpointId;
  readonly base?: CheckpointId;
  readonly devicePath: string;
  readonly sizeBytes: number;
  readonly blockStates: ArrayBuffer;
  readonly hashTable?: SharedArrayBuffer;
  readonly tags: readonly string[];
}

/** What this end needs from the agent. */
export interface SourceAgent {
  round(request: RoundRequest, signal: AbortSignal): Promise<RoundOfMove>;
  /** For the log. */
  note(event: { readonly moveUid: string; readonly message: string }): Promise<void>;
}

interface Offer {
  readonly context: SecureContext;
  /** The certificate of the target, which proves in the handshake that it has the key. */
  readonly peer: Buffer;
  /** The latest connection. One at a time is served: a checkpoint that is being read cannot be removed. */
  serving: Serving | undefined;
}

interface Serving {
  readonly connection: Connection;
  readonly done: Promise<void>;
}

async function ended(serving: Serving | undefined): Promise<void> {
  await serving?.connection.close();
  await serving?.done;
}

/** Serves the rounds of offered moves. The uid of a move is the server name in the handshake, and selects its keys. */
export class SourceEnd {
  readonly #agent: SourceAgent;
  readonly #connections: ConnectionOptions;
  readonly #offers = new Map<string, Offer>();
  #server: Server | undefined;

  constructor(agent: SourceAgent, connections: ConnectionOptions = {}) {
    this.#agent = agent;
    this.#connections = connections;
  }

  async offer({ moveUid, port, own, peerCertificate }: OfferedMove): Promise<{ readonly port: number }> {
    const context = createSecureContext({ ...own, ca: peerCertificate, minVersion: 'TLSv1.3' });
    await this.#end(moveUid);
    this.#offers.set(moveUid, { context, peer: new X509Certificate(peerCertificate).raw, serving: undefined });
    this.#server ??= await this.#listen(port);
    return { port: (this.#server.address() as AddressInfo).port };
  }

  /** On return nothing reads the volume. */
  async withdraw({ moveUid }: { readonly moveUid: string }): Promise<void> {
    await this.#end(moveUid);
    if (this.#offers.size > 0) return;
    this.#server?.close();
    this.#server = undefined;
  }

  async #listen(port: number): Promise<Server> {
    const server = createServer({
      SNICallback: (moveUid, answer) => {
        const offer = this.#offers.get(moveUid);
        answer(offer ? null : new Error('this move is not offered here'), offer?.context);
      },
      requestCert: true,
      rejectUnauthorized: false, // it is compared below, so that the target learns why it is refused
      secureOptions: constants.SSL_OP_NO_TICKET, // a session of one move must not open another one
      minVersion: 'TLSv1.3',
      handshakeTimeout: handshakeTimeoutMs,
    });
    server.maxConnections = maxConnections;
    server.on('secureConnection', (socket) => void this.#accept(socket));
    server.on('tlsClientError', (error, socket) => {
      const message = `refused a connection from ${socket.remoteAddress}: ${messageOf(error)}`;
      void this.#agent.note({ moveUid: String(socket.servername), message });
      socket.destroy();
    });
    server.listen(port);
    await once(server, 'listening');
    server.on('error', (error) => void this.#agent.note({ moveUid: '', message: messageOf(error) }));
    return server;
  }

  async #accept(socket: TLSSocket): Promise<void> {
    const moveUid = String(socket.servername);
    const connection = new Connection(socket, String(socket.remoteAddress), this.#connections);
    const offer = this.#offers.get(moveUid);
    if (!offer || !socket.getPeerX509Certificate()?.raw.equals(offer.peer)) {
      void this.#agent.note({
        moveUid,
        message: `refused ${connection.peer}: it has not the certificate of this move`,
      });
      connection.tell({ type: 'refused' });
      return connection.close();
    }
    const earlier = offer.serving; // the target has given it up
    const done = ended(earlier).then(() => this.#serve(moveUid, connection));
    offer.serving = { connection, done };
    await done;
  }

  async #end(moveUid: string): Promise<void> {
    const offer = this.#offers.get(moveUid);
    this.#offers.delete(moveUid);
    await ended(offer?.serving);
  }

  async #serve(moveUid: string, connection: Connection): Promise<void> {
    try {
      await this.#sendRound(moveUid, connection);
    } catch (error) {
      if (!connection.signal.aborted) connection.tell({ type: 'failed', message: messageOf(error) });
      void this.#agent.note({ moveUid, message: `a round ended early: ${messageOf(error)}` });
    }
    await connection.close();
  }

  async #sendRound(moveUid: string, connection: Connection): Promise<void> {
    const { kind, position, bytesPerSecond } = await pullOf(connection);
    const round = await this.#agent.round({ moveUid, kind, position: asPosition(position) }, connection.signal);
    const blocks = new BlockMap(round.sizeBytes, round.blockStates);
    const { checkpoint, base, devicePath, sizeBytes, tags } = round;
    const fromOffset = position.partial?.checkpoint === checkpoint ? position.partial.offset : 0;
    let changedBytes = 0;
    for (const { length } of blocks.runs(fromOffset)) changedBytes += length;
    connection.tell({
      ...{ type: 'begin', checkpoint, fromOffset, sizeBytes, changedBytes, tags: [...tags] },
      ...(base && { base }),
    });
    const hashes = round.hashTable && new KnownHashes(round.hashTable);
    const sender = new RoundSender(connection, { devicePath, blocks, fromOffset, hashes, bytesPerSecond });
    const confirmed = untilDone(connection, sender);
    confirmed.catch(() => undefined); // awaited below
    connection.tell({ type: 'end', sha256: await sender.send() });
    await confirmed;
  }
}

async function pullOf(connection: Connection): Promise<Pull> {
  for (;;) {
    const message = await targetMessage(connection);
    if (message.type === 'pull') return message;
  }
}

/** Follows how far the target is, until it has everything on its disk. */
async function untilDone(connection: Connection, sender: RoundSender): Promise<void> {
  for (;;) {
    const message = await targetMessage(connection);
    if (message.type === 'reached') sender.reached(message.offset);
    if (message.type === 'done') return sender.reached(Number.POSITIVE_INFINITY);
  }
}

async function targetMessage(connection: Connection): Promise<TargetMessage> {
  const { length } = decodeHeader(await connection.readHeader());
  const text = Buffer.alloc(length);
  await connection.read(text);
  return parseTargetMessage(text);
}

function asPosition({ complete, partial }: Pull['position']): Position {
  return { ...(complete && { complete }), ...(partial && { partial }) };
}

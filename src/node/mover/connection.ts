import { once } from 'node:events';
import type { TLSSocket } from 'node:tls';
import { type Clock, systemClock, type Timer } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import { PeerLost, PeerRefused } from './errors.ts';
import { encodeHeader, headerBytes } from './frames.ts';
import type { SourceMessage, TargetMessage } from './messages.ts';

export interface ConnectionOptions {
  /** Short enough that nobody waits long for a dead node, long enough for a network that is being repaired. */
  readonly silenceMs?: number;
  readonly clock?: Clock;
}

const defaultSilenceMs = 60_000;
/** Each end sends at least this many messages before the other counts as silent. */
const beats = 4;
/** What may arrive before somebody reads it. */
const maxUnreadBytes = 1024 ** 2;

interface Wanted {
  readonly into: Uint8Array;
  filled: number;
  readonly done: PromiseWithResolvers<void>;
}

/**
 * One connection between the two ends of a move. Both ends send a message now and then, however long their disks take,
 * so that each notices when the other is gone.
 */
export class Connection {
  readonly peer: string;
  /** Aborts when the connection is lost. */
  readonly signal: AbortSignal;
  readonly #socket: TLSSocket;
  readonly #silenceMs: number;
  readonly #clock: Clock;
  readonly #lost = new AbortController();
  readonly #unread: Buffer[] = [];
  #unreadBytes = 0;
  #wanted: Wanted | undefined;
  #silentBeats = 0;
  #beat: Timer;

  constructor(socket: TLSSocket, peer: string, options: ConnectionOptions = {}) {
    const { silenceMs = defaultSilenceMs, clock = systemClock } = options;
    this.peer = peer;
    this.signal = this.#lost.signal;
    this.#socket = socket;
    this.#silenceMs = silenceMs;
    this.#clock = clock;
    this.#beat = this.#beatLater();
    socket.setNoDelay(true);
    socket.on('data', (piece: Buffer) => this.#arrived(piece));
    socket.on('error', (error: NodeJS.ErrnoException) => {
      const isRefusal = error.code?.startsWith('ERR_SSL') ?? false;
      this.fail(isRefusal ? new PeerRefused(peer, error) : new PeerLost(peer, messageOf(error), error));
    });
    socket.on('end', () => this.fail(new PeerLost(peer, 'it ended the connection')));
    socket.on('close', () => this.fail(new PeerLost(peer, 'it closed the connection')));
  }

  /** Waits until all of the buffer is filled. One caller at a time. */
  async read(into: Uint8Array): Promise<void> {
    const wanted: Wanted = { into, filled: 0, done: Promise.withResolvers() };
    while (wanted.filled < into.length && this.#unread.length > 0) {
      const [piece] = this.#unread.splice(0, 1) as [Buffer];
      this.#unreadBytes -= piece.length;
      this.#give(piece, wanted);
    }
    if (wanted.filled === into.length) return;
    this.signal.throwIfAborted();
    this.#wanted = wanted;
    this.#socket.resume();
    await wanted.done.promise;
  }

  async readHeader(): Promise<Buffer> {
    const header = Buffer.alloc(headerBytes);
    await this.read(header);
    return header;
  }

  tell(message: SourceMessage | TargetMessage): void {
    const text = Buffer.from(JSON.stringify(message));
    this.send(encodeHeader({ kind: 'message', offset: 0, length: text.length }), text);
  }

  /** `sent` is called once the data may be changed, also if the connection is lost. */
  send(header: Buffer, data?: Uint8Array, sent: () => void = () => undefined): void {
    if (this.signal.aborted) return sent();
    this.#socket.cork(); // one write for both
    this.#socket.write(header);
    if (data) this.#socket.write(data, sent);
    this.#socket.uncork();
    if (!data) sent();
  }

  /** Closes it after what was sent has left. */
  async close(): Promise<void> {
    if (!this.signal.aborted) {
      this.#socket.end();
      await Promise.race([once(this.#socket, 'finish'), once(this.signal, 'abort')]).catch(() => undefined); // only wait
    }
    this.fail(new PeerLost(this.peer, 'this end closed it'));
  }

  /** Closes it at once. Whoever waits gets the error. */
  fail(error: Error): void {
    if (this.signal.aborted) return;
    this.#beat.cancel();
    this.#socket.destroy();
    this.#lost.abort(error);
    this.#wanted?.done.reject(error);
  }

  #arrived(piece: Buffer): void {
    this.#silentBeats = 0;
    if (this.#wanted) this.#give(piece, this.#wanted);
    else this.#keep(piece);
    if (this.#unreadBytes >= maxUnreadBytes) this.#socket.pause();
  }

  #give(piece: Buffer, wanted: Wanted): void {
    const bytes = Math.min(piece.length, wanted.into.length - wanted.filled);
    wanted.into.set(piece.subarray(0, bytes), wanted.filled);
    wanted.filled += bytes;
    if (wanted.filled < wanted.into.length) return;
    if (bytes < piece.length) this.#keep(piece.subarray(bytes), 'first');
    this.#wanted = undefined;
    wanted.done.resolve();
  }

  #keep(piece: Buffer, where: 'first' | 'last' = 'last'): void {
    this.#unreadBytes += piece.length;
    if (where === 'first') this.#unread.unshift(piece);
    else this.#unread.push(piece);
  }

  #beatLater(): Timer {
    return this.#clock.setTimer(() => {
      const isListening = !this.#socket.isPaused(); // otherwise this end is the slow one
      this.#silentBeats = isListening ? this.#silentBeats + 1 : 0;
      if (this.#silentBeats > beats) {
        return this.fail(new PeerLost(this.peer, `it was silent for ${this.#silenceMs / 1000} s`));
      }
      this.tell({ type: 'alive' });
      this.#beat = this.#beatLater();
    }, this.#silenceMs / beats);
  }
}

import { statSync } from 'node:fs';
import { chmod, chown, mkdir, rename, rm, stat } from 'node:fs/promises';
import {
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import { basename, dirname, join } from 'node:path';
import type { DescMethod, DescService, Message } from '@bufbuild/protobuf';
import type { Clock, Timer } from '../base/clock.ts';
import { codeOf, type ErrorCode, messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { type CallKind, CallSignal } from './call-signal.ts';
import { loggable } from './loggable.ts';
import { ServerCall } from './server-call.ts';
import {
  decode,
  encode,
  pathOf,
  type Received,
  type Sent,
  type StreamMethod,
  type UnaryMethod,
} from './service-definition.ts';
import { timeoutOf } from './timeout.ts';

/** What an implementation knows of the call besides its request. */
export interface Call {
  /** Aborted when the caller has gone, when its deadline has passed, or when the server stops without grace left. */
  readonly signal: AbortSignal;
  readonly log: Log;
}

/** A service as plain async functions and generators. A method that is missing answers Unimplemented. */
export type Implementation<S extends DescService> = {
  readonly [K in UnaryMethod<S>]?: (request: Received<S, K, 'input'>, call: Call) => Promise<Sent<S, K, 'output'>>;
} & {
  readonly [K in StreamMethod<S>]?: (
    request: Received<S, K, 'input'>,
    call: Call,
  ) => AsyncIterable<Sent<S, K, 'output'>>;
};

/** A method that is served. */
interface Served {
  readonly method: DescMethod;
  readonly kind: CallKind;
  /** Returns a promise of the answer, or an iterable of the answers. */
  readonly run: (request: Message, call: Call) => Promise<object> | AsyncIterable<object>;
  readonly log: Log;
}

/** How a call went, for those who count. */
export interface AnsweredCall {
  /** As in `csi.v1.Node`. */
  readonly service: string;
  readonly method: string;
  readonly code: ErrorCode | 'OK';
  readonly durationMs: number;
}

export interface RpcServerOptions {
  readonly socketPath: string;
  readonly clock: Clock;
  readonly log: Log;
  /** A longer request is refused unread. */
  readonly maxRequestBytes?: number;
  /** Told of every call once. */
  readonly onAnswered?: (call: AnsweredCall) => void;
}

const defaultMaxRequestBytes = 4 * 1024 * 1024;

/** How long the last answers may take to be read when the server has no grace left. */
const lastWordMs = 500;

/**
 * Serves gRPC on a unix socket that only our own user can open.
 * The socket appears under its name with its mode set and already answering, and replaces one left by an earlier run.
 */
export class RpcServer {
  readonly #socketPath: string;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #maxRequestBytes: number;
  readonly #onAnswered: (call: AnsweredCall) => void;
  readonly #server: Http2Server;
  readonly #methods = new Map<string, Served>();
  readonly #sessions = new Set<ServerHttp2Session>();
  readonly #calls = new Set<CallSignal>();
  #isOutOfGrace = false;
  #hangUp: Timer | undefined;
  #inode: number | undefined;

  constructor({ socketPath, clock, log, maxRequestBytes, onAnswered }: RpcServerOptions) {
    this.#socketPath = socketPath;
    this.#clock = clock;
    this.#log = log;
    this.#maxRequestBytes = maxRequestBytes ?? defaultMaxRequestBytes;
    this.#onAnswered = onAnswered ?? (() => undefined);
    this.#server = createServer();
    this.#server.on('session', (session) => {
      this.#sessions.add(session);
      session.once('close', () => this.#sessions.delete(session));
    });
    this.#server.on('sessionError', (error) => log.debug({ error: messageOf(error) }, 'a connection was lost'));
    this.#server.on('stream', (stream: ServerHttp2Stream, headers) => void this.#take(stream, headers));
  }

  add<S extends DescService>(service: S, implementation: Implementation<S>): this {
    const runs = implementation as Readonly<Record<string, Served['run'] | undefined>>;
    for (const method of service.methods) {
      const run = runs[method.localName]?.bind(implementation);
      const kind = method.methodKind === 'server_streaming' ? 'stream' : 'unary';
      if (run) this.#methods.set(pathOf(method), { method, kind, run, log: this.#log.child({ method: method.name }) });
    }
    return this;
  }

  async listen(): Promise<void> {
    const directory = dirname(this.#socketPath);
    // The kubelet, which watches some of these directories, ignores names that begin with a dot.
    const unfinished = join(directory, `.${basename(this.#socketPath)}.new`);
    await mkdir(directory, { recursive: true, mode: 0o750 });
    await rm(unfinished, { force: true });
    await this.#bind(unfinished);
    await chmod(unfinished, 0o600);
    await this.#own(unfinished);
    this.#inode = (await stat(unfinished)).ino;
    await rename(unfinished, this.#socketPath);
    this.#log.info({ socket: this.#socketPath }, 'serving');
  }

  /**
   * Takes no more calls, ends streams, and waits for the other calls; after the grace period these are aborted too, and
   * whoever does not read its answer is left.
   */
  async stop(graceMs: number): Promise<void> {
    await this.#removeSocket();
    const cancel = (calls: Iterable<CallSignal>) => {
      for (const call of calls) call.cancel('the server is stopping');
    };
    cancel([...this.#calls].filter(({ kind }) => kind === 'stream')); // by nature they are never done
    const grace = this.#clock.setTimer(() => {
      this.#isOutOfGrace = true;
      cancel(this.#calls);
      this.#hangUpOnceIdle();
    }, graceMs);
    await new Promise((resolve) => {
      this.#server.close(resolve);
      for (const session of this.#sessions) session.close(); // when its last call has ended
    });
    grace.cancel();
    this.#hangUp?.cancel();
  }

  #hangUpOnceIdle(): void {
    if (!this.#isOutOfGrace || this.#calls.size > 0) return;
    this.#hangUp = this.#clock.setTimer(() => {
      for (const session of this.#sessions) session.destroy();
    }, lastWordMs);
  }

  /** A directory may hand its group on to what is made in it. */
  async #own(path: string): Promise<void> {
    const [user, group] = [process.geteuid?.(), process.getegid?.()];
    if (user !== undefined && group !== undefined) await chown(path, user, group);
  }

  /** Unless a successor has put its own in place already. */
  async #removeSocket(): Promise<void> {
    const present = statSync(this.#socketPath, { throwIfNoEntry: false });
    if (present && present.ino === this.#inode) await rm(this.#socketPath, { force: true });
  }

  #bind(path: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(path, () => {
        this.#server.off('error', reject);
        resolve();
      });
    });
  }

  async #take(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): Promise<void> {
    if (!headers['content-type']?.startsWith('application/grpc')) {
      stream.respond({ ':status': 415 }, { endStream: true });
      return;
    }
    const call = new ServerCall(stream);
    const served = this.#methods.get(headers[':path'] ?? '');
    if (served) await this.#serve(served, call, headers);
    else call.refuse('Unimplemented', `${headers[':path']} is not served here; see whether versions fit together`);
  }

  async #serve(served: Served, call: ServerCall, headers: IncomingHttpHeaders): Promise<void> {
    const { method, kind, log } = served;
    const startedMs = this.#clock.now();
    const durationMs = () => this.#clock.now() - startedMs;
    let callSignal: CallSignal | undefined;
    let code: AnsweredCall['code'] = 'OK';
    try {
      callSignal = new CallSignal(kind, timeoutOf(one(headers['grpc-timeout'])), this.#clock);
      this.#calls.add(callSignal);
      await this.#answer(served, call, callSignal);
      log.debug({ durationMs: durationMs(), code }, 'answered');
    } catch (caught) {
      // What a stream waited for only says "aborted".
      const error = kind === 'stream' && callSignal?.signal.aborted ? callSignal.signal.reason : caught;
      code = codeOf(error);
      const facts = { durationMs: durationMs(), code };
      // Somebody else's mistake or misfortune is told in one sentence; our own needs the stack to be found.
      if (code === 'Internal') log.error({ ...facts, err: error }, messageOf(error));
      else if (kind === 'stream' && code === 'Cancelled') log.debug(facts, messageOf(error));
      else log.warn(facts, messageOf(error));
      call.refuse(code, messageOf(error));
    } finally {
      callSignal?.release();
      if (callSignal) this.#calls.delete(callSignal);
      this.#hangUpOnceIdle();
      this.#onAnswered({ service: method.parent.typeName, method: method.name, code, durationMs: durationMs() });
    }
  }

  async #answer({ method, run, log }: Served, call: ServerCall, callSignal: CallSignal): Promise<void> {
    const { signal } = callSignal;
    call.onceClosed(() => callSignal.callerLeft());
    const request = decode(method.input, await call.request(this.#maxRequestBytes, signal));
    if (log.isLevelEnabled('debug')) log.debug({ request: loggable(method.input, request) }, 'called');
    const answers = run(request, { signal, log });
    if (!(Symbol.asyncIterator in answers)) {
      call.answer(encode(method.output, await answers));
      return;
    }
    for await (const message of answers) await call.write(encode(method.output, message), signal);
    call.end();
  }
}

function one(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}

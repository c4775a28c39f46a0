import { once } from 'node:events';
import { statSync } from 'node:fs';
import { chmod, chown, mkdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { DescMethod, DescService, Message } from '@bufbuild/protobuf';
import {
  type handleServerStreamingCall,
  type handleUnaryCall,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
} from '@grpc/grpc-js';
import type { Clock, Timer } from '../base/clock.ts';
import { codeOf, type ErrorCode, messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { CallSignal } from './call-signal.ts';
import { addressOf, asIs } from './grpc.ts';
import { loggable } from './loggable.ts';
import {
  decode,
  encode,
  pathOf,
  type Received,
  type Sent,
  type StreamMethod,
  type UnaryMethod,
} from './service-definition.ts';
import { detailsOf, numberOf } from './status.ts';

/** What an implementation gets besides the request. */
export interface Call {
  /** Aborts when the caller is gone, when its deadline has passed, or when the server stops without grace left. */
  readonly signal: AbortSignal;
  readonly log: Log;
}

/** A service as plain async functions and generators. A missing method answers Unimplemented. */
export type Implementation<S extends DescService> = {
  readonly [K in UnaryMethod<S>]?: (request: Received<S, K, 'input'>, call: Call) => Promise<Sent<S, K, 'output'>>;
} & {
  readonly [K in StreamMethod<S>]?: (
    request: Received<S, K, 'input'>,
    call: Call,
  ) => AsyncIterable<Sent<S, K, 'output'>>;
};

type UnaryRun = (request: Message, call: Call) => Promise<object>;
type StreamRun = (request: Message, call: Call) => AsyncIterable<object>;
type GrpcCall = Pick<ServerUnaryCall<Buffer, Uint8Array>, 'request' | 'getDeadline'> & NodeJS.EventEmitter;

/** How to answer or refuse a call. */
interface Replies {
  readonly answer: (request: Message, call: Call) => Promise<void>;
  readonly refuse: (status: { readonly code: number; readonly details: string }) => void;
}

/** The outcome of a call, for metrics. */
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
  /** A longer request is refused without reading it. */
  readonly maxRequestBytes?: number;
  /** Called once for every call that reaches its implementation. */
  readonly onAnswered?: (call: AnsweredCall) => void;
}

const defaultMaxRequestBytes = 4 * 1024 * 1024;
const unlimited = -1;

/** How long clients may take to read the last answers when the server has no grace left. */
const lastWordMs = 500;

/**
 * Serves gRPC on a unix socket that only our own user can open.
 * The socket appears with its mode set and already answering, and replaces one left by an earlier run.
 */
export class RpcServer {
  readonly #socketPath: string;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #onAnswered: (call: AnsweredCall) => void;
  readonly #server: Server;
  readonly #calls = new Set<CallSignal>();
  #isOutOfGrace = false;
  #closing: Timer | undefined;
  #inode: number | undefined;

  constructor({ socketPath, clock, log, maxRequestBytes, onAnswered }: RpcServerOptions) {
    this.#socketPath = socketPath;
    this.#clock = clock;
    this.#log = log;
    this.#onAnswered = onAnswered ?? (() => undefined);
    this.#server = new Server({
      'grpc.max_receive_message_length': maxRequestBytes ?? defaultMaxRequestBytes,
      'grpc.max_send_message_length': unlimited,
    });
  }

  add<S extends DescService>(service: S, implementation: Implementation<S>): this {
    const runs = implementation as Readonly<Record<string, (UnaryRun & StreamRun) | undefined>>;
    for (const method of service.methods) {
      const run = runs[method.localName]?.bind(implementation);
      if (!run) continue;
      if (method.methodKind === 'server_streaming') {
        this.#server.register(pathOf(method), this.#streamHandler(method, run), asIs, asIs, 'serverStream');
      } else {
        this.#server.register(pathOf(method), this.#unaryHandler(method, run), asIs, asIs, 'unary');
      }
    }
    return this;
  }

  async listen(): Promise<void> {
    const directory = dirname(this.#socketPath);
    // The kubelet watches some of these directories, and ignores names that start with a dot.
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
   * Takes no more calls, ends streams, and waits for other calls. After the grace period these are aborted too, and
   * clients that do not read their answers are disconnected.
   */
  async stop(graceMs: number): Promise<void> {
    await this.#removeSocket();
    const cancel = (calls: Iterable<CallSignal>) => {
      for (const call of calls) call.cancel('the server is stopping');
    };
    cancel([...this.#calls].filter(({ kind }) => kind === 'stream')); // they never end by themselves
    const grace = this.#clock.setTimer(() => {
      this.#isOutOfGrace = true;
      cancel(this.#calls);
      this.#closeOnceIdle();
    }, graceMs);
    await new Promise<void>((resolve, reject) => {
      this.#server.tryShutdown((error) => (error ? reject(error) : resolve()));
    });
    grace.cancel();
    this.#closing?.cancel();
  }

  #closeOnceIdle(): void {
    if (!this.#isOutOfGrace || this.#calls.size > 0) return;
    this.#closing = this.#clock.setTimer(() => this.#server.forceShutdown(), lastWordMs);
  }

  /** The socket may inherit the group of its directory. */
  async #own(path: string): Promise<void> {
    const [user, group] = [process.geteuid?.(), process.getegid?.()];
    if (user !== undefined && group !== undefined) await chown(path, user, group);
  }

  /** Unless a successor has already replaced it. */
  async #removeSocket(): Promise<void> {
    const present = statSync(this.#socketPath, { throwIfNoEntry: false });
    if (present && present.ino === this.#inode) await rm(this.#socketPath, { force: true });
  }

  #bind(path: string): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.bindAsync(addressOf(path), ServerCredentials.createInsecure(), (error, port) =>
        error ? reject(error) : resolve(port),
      );
    });
  }

  #unaryHandler(method: DescMethod, run: UnaryRun): handleUnaryCall<Buffer, Uint8Array> {
    return (call, respond) => {
      const answer: Replies['answer'] = async (request, context) =>
        respond(null, encode(method.output, await run(request, context)));
      void this.#serve(method, call, 'unary', { answer, refuse: respond });
    };
  }

  #streamHandler(method: DescMethod, run: StreamRun): handleServerStreamingCall<Buffer, Uint8Array> {
    return (call) => {
      const answer: Replies['answer'] = async (request, context) => {
        for await (const message of run(request, context)) {
          context.signal.throwIfAborted();
          // A caller that does not read delays only itself.
          if (!call.write(encode(method.output, message))) await once(call, 'drain', { signal: context.signal });
        }
        call.end();
      };
      void this.#serve(method, call, 'stream', { answer, refuse: (status) => void call.emit('error', status) });
    };
  }

  async #serve(method: DescMethod, call: GrpcCall, kind: CallSignal['kind'], replies: Replies): Promise<void> {
    const startedMs = this.#clock.monotonic();
    const durationMs = () => this.#clock.monotonic() - startedMs;
    const log = this.#log.child({ method: method.name });
    const callSignal = new CallSignal(kind, Number(call.getDeadline()) - Date.now(), this.#clock);
    const { signal } = callSignal;
    let code: AnsweredCall['code'] = 'OK';
    this.#calls.add(callSignal);
    call.once('cancelled', () => callSignal.callerLeft());
    try {
      const request = decode(method.input, call.request);
      if (log.isLevelEnabled('debug')) log.debug({ request: loggable(method.input, request) }, 'called');
      await replies.answer(request, { signal, log });
      log.debug({ durationMs: durationMs(), code }, 'answered');
    } catch (caught) {
      const error = kind === 'stream' && signal.aborted ? signal.reason : caught; // the caught error only says "aborted"
      code = codeOf(error);
      const facts = { durationMs: durationMs(), code };
      // A known error is logged as one sentence; a bug needs the stack to be found.
      if (code === 'Internal') log.error({ ...facts, err: error }, messageOf(error));
      else if (kind === 'stream' && code === 'Cancelled') log.debug(facts, messageOf(error));
      else log.warn(facts, messageOf(error));
      replies.refuse({ code: numberOf(code), details: detailsOf(messageOf(error)) });
    } finally {
      callSignal.release();
      this.#calls.delete(callSignal);
      this.#closeOnceIdle();
      this.#onAnswered({ service: method.parent.typeName, method: method.name, code, durationMs: durationMs() });
    }
  }
}

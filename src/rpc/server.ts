import { once } from 'node:events';
import { statSync } from 'node:fs';
import { chmod, chown, mkdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { DescMethod, DescService, Message } from '@bufbuild/protobuf';
import {
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServerWritableStream,
  type sendUnaryData,
} from '@grpc/grpc-js';
import type { Clock } from '../base/clock.ts';
import { codeOf, messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { CallSignal } from './call-signal.ts';
import { loggable } from './loggable.ts';
import {
  type Received,
  type Sent,
  type StreamMethod,
  serviceDefinition,
  type UnaryMethod,
} from './service-definition.ts';
import { numberOf } from './status.ts';

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

type UnaryRun = (request: Message, call: Call) => Promise<object>;
type StreamRun = (request: Message, call: Call) => AsyncIterable<object>;

export interface RpcServerOptions {
  readonly socketPath: string;
  readonly clock: Clock;
  readonly log: Log;
  /** A longer request is refused unread. */
  readonly maxRequestBytes?: number;
}

const defaultMaxRequestBytes = 4 * 1024 * 1024;
const unlimited = -1;

/**
 * Serves gRPC on a unix socket that only our own user can open.
 * The socket appears under its name with its mode set and already answering, and replaces one left by an earlier run.
 */
export class RpcServer {
  readonly #socketPath: string;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #server: Server;
  readonly #calls = new Set<CallSignal>();
  #inode: number | undefined;

  constructor({ socketPath, clock, log, maxRequestBytes = defaultMaxRequestBytes }: RpcServerOptions) {
    this.#socketPath = socketPath;
    this.#clock = clock;
    this.#log = log;
    this.#server = new Server({
      'grpc.max_receive_message_length': maxRequestBytes,
      'grpc.max_send_message_length': unlimited,
    });
  }

  add<S extends DescService>(service: S, implementation: Implementation<S>): this {
    const methods = implementation as Readonly<Record<string, (UnaryRun & StreamRun) | undefined>>;
    const handlers = service.methods.flatMap((method) => {
      const run = methods[method.localName]?.bind(implementation);
      if (!run) return [];
      const streams = method.methodKind === 'server_streaming';
      return [
        [method.localName, streams ? this.#streamHandler(method, run) : this.#unaryHandler(method, run)] as const,
      ];
    });
    this.#server.addService(serviceDefinition(service), Object.fromEntries(handlers));
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

  /** Takes no more calls, ends streams, and waits for the other calls; after the grace period these are aborted too. */
  async stop(graceMs: number): Promise<void> {
    await this.#removeSocket();
    const cancel = (calls: Iterable<CallSignal>) => {
      for (const call of calls) call.cancel('the server is stopping');
    };
    cancel([...this.#calls].filter(({ kind }) => kind === 'stream')); // by nature they are never done
    const grace = this.#clock.setTimer(() => cancel(this.#calls), graceMs);
    await new Promise<void>((resolve, reject) => {
      this.#server.tryShutdown((error) => (error ? reject(error) : resolve()));
    });
    grace.cancel();
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

  #bind(path: string): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.bindAsync(`unix:${path}`, ServerCredentials.createInsecure(), (error, port) =>
        error ? reject(error) : resolve(port),
      );
    });
  }

  #unaryHandler(method: DescMethod, run: UnaryRun) {
    return (call: ServerUnaryCall<Message, object>, respond: sendUnaryData<object>): void => {
      const answer = async (its: Call) => respond(null, await run(call.request, its));
      void this.#serve(method, call, new CallSignal(call, 'unary', this.#clock), answer, respond);
    };
  }

  #streamHandler(method: DescMethod, run: StreamRun) {
    return (call: ServerWritableStream<Message, object>): void => {
      const answer = async (its: Call) => {
        for await (const message of run(call.request, its)) {
          // A listener that does not read makes nobody but itself wait.
          if (!call.write(message)) await once(call, 'drain', { signal: its.signal });
        }
        call.end();
      };
      const refuse = (status: object) => void call.emit('error', status);
      void this.#serve(method, call, new CallSignal(call, 'stream', this.#clock), answer, refuse);
    };
  }

  async #serve(
    method: DescMethod,
    { request }: { readonly request: Message },
    callSignal: CallSignal,
    answer: (call: Call) => Promise<void>,
    refuse: (status: { readonly code: number; readonly details: string }) => void,
  ): Promise<void> {
    const startedMs = this.#clock.now();
    const log = this.#log.child({ method: method.name });
    const { signal, kind } = callSignal;
    this.#calls.add(callSignal);
    try {
      if (log.isLevelEnabled('debug')) log.debug({ request: loggable(method.input, request) }, 'called');
      await answer({ signal, log });
      log.debug({ durationMs: this.#clock.now() - startedMs, code: 'OK' }, 'answered');
    } catch (caught) {
      const error = kind === 'stream' && signal.aborted ? signal.reason : caught; // what it waited for only says "aborted"
      const code = codeOf(error);
      const facts = { durationMs: this.#clock.now() - startedMs, code };
      // Somebody else's mistake or misfortune is told in one sentence; our own needs the stack to be found.
      if (code === 'Internal') log.error({ ...facts, err: error }, messageOf(error));
      else if (kind === 'stream' && code === 'Cancelled') log.debug(facts, messageOf(error));
      else log.warn(facts, messageOf(error));
      refuse({ code: numberOf(code), details: messageOf(error) });
    } finally {
      callSignal.release();
      this.#calls.delete(callSignal);
    }
  }
}

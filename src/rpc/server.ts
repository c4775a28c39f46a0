import { statSync } from 'node:fs';
import { chmod, mkdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { DescMethod, DescService, Message } from '@bufbuild/protobuf';
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData } from '@grpc/grpc-js';
import type { Clock } from '../base/clock.ts';
import { codeOf, messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { CallSignal } from './call-signal.ts';
import { loggable } from './loggable.ts';
import { type Received, type Sent, serviceDefinition, type UnaryMethod } from './service-definition.ts';
import { numberOf } from './status.ts';

/** What an implementation knows of the call besides its request. */
export interface Call {
  /** Aborted when the caller has gone, when its deadline has passed, or when the server stops without grace left. */
  readonly signal: AbortSignal;
  readonly log: Log;
}

/** A service as plain async functions. A method that is missing answers Unimplemented. */
export type Implementation<S extends DescService> = {
  readonly [K in UnaryMethod<S>]?: (request: Received<S, K, 'input'>, call: Call) => Promise<Sent<S, K, 'output'>>;
};

type AnyMethod = (request: Message, call: Call) => Promise<object>;

const maxMessageBytes = 4 * 1024 * 1024;

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

  constructor({ socketPath, clock, log }: { readonly socketPath: string; readonly clock: Clock; readonly log: Log }) {
    this.#socketPath = socketPath;
    this.#clock = clock;
    this.#log = log;
    this.#server = new Server({
      'grpc.max_receive_message_length': maxMessageBytes,
      'grpc.max_send_message_length': maxMessageBytes,
    });
  }

  add<S extends DescService>(service: S, implementation: Implementation<S>): this {
    const methods = implementation as Readonly<Record<string, AnyMethod | undefined>>;
    const handlers = service.methods.flatMap((method) => {
      const run = methods[method.localName]?.bind(implementation);
      return run ? [[method.localName, this.#handler(method, run)] as const] : [];
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
    this.#inode = (await stat(unfinished)).ino;
    await rename(unfinished, this.#socketPath);
    this.#log.info({ socket: this.#socketPath }, 'serving');
  }

  /** Takes no more calls and waits for those under way; after the grace period their signals are aborted. */
  async stop(graceMs: number): Promise<void> {
    await this.#removeSocket();
    const grace = this.#clock.setTimer(() => {
      for (const call of this.#calls) call.cancel('the server is stopping');
    }, graceMs);
    await new Promise<void>((resolve, reject) => {
      this.#server.tryShutdown((error) => (error ? reject(error) : resolve()));
    });
    grace.cancel();
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

  #handler(method: DescMethod, run: AnyMethod) {
    return (call: ServerUnaryCall<Message, object>, respond: sendUnaryData<object>): void => {
      void this.#serve(method, run, call, respond);
    };
  }

  async #serve(
    method: DescMethod,
    run: AnyMethod,
    call: ServerUnaryCall<Message, object>,
    respond: sendUnaryData<object>,
  ): Promise<void> {
    const startedMs = this.#clock.now();
    const log = this.#log.child({ method: method.name });
    if (log.isLevelEnabled('debug')) log.debug({ request: loggable(method.input, call.request) }, 'called');

    const callSignal = new CallSignal(call, this.#clock);
    this.#calls.add(callSignal);
    try {
      const response = await run(call.request, { signal: callSignal.signal, log });
      log.debug({ durationMs: this.#clock.now() - startedMs, code: 'OK' }, 'answered');
      respond(null, response);
    } catch (error) {
      const code = codeOf(error);
      const facts = { durationMs: this.#clock.now() - startedMs, code };
      // Somebody else's mistake or misfortune is told in one sentence; our own needs the stack to be found.
      if (code === 'Internal') log.error({ ...facts, err: error }, messageOf(error));
      else log.warn(facts, messageOf(error));
      respond({ code: numberOf(code), details: messageOf(error) });
    } finally {
      callSignal.release();
      this.#calls.delete(callSignal);
    }
  }
}

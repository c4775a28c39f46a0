import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { ErrorCode } from '../../../src/base/errors.ts';
import type { Volume } from '../../../src/engine/pool.ts';
import { type Change, type Engine, EngineDied, Refused } from './engine.ts';

export interface Request {
  readonly call: number;
  readonly pool: string;
  readonly action: Change | { readonly kind: 'list' };
}

export interface Answer {
  readonly call: number;
  readonly value?: unknown;
  readonly error?: { readonly code: ErrorCode; readonly message: string };
}

/** The storage engine as a process of its own, so that it can be killed at any moment. */
export class EngineProcess implements Engine {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>();
  readonly #exited: Promise<unknown>;
  #calls = 0;

  private constructor(configPath: string) {
    const file = join(import.meta.dirname, 'engine-child.ts');
    this.#child = fork(file, [configPath], { serialization: 'advanced', execArgv: [] }); // otherwise it would be a test runner too
    this.#waiting.set(0, Promise.withResolvers());
    this.#child.on('message', ({ call, value, error }: Answer) => {
      const waiting = this.#waiting.get(call);
      this.#waiting.delete(call);
      if (error) waiting?.reject(new Refused(error));
      else waiting?.resolve(value);
    });
    this.#exited = once(this.#child, 'exit').then(() => {
      for (const { reject } of this.#waiting.values()) reject(new EngineDied('the engine is gone; start another one'));
    });
  }

  static async start(configPath: string): Promise<EngineProcess> {
    const engine = new EngineProcess(configPath);
    await engine.#waiting.get(0)?.promise;
    return engine;
  }

  change(pool: string, action: Change): Promise<Volume | undefined> {
    return this.#call(pool, action) as Promise<Volume | undefined>;
  }

  list(pool: string): Promise<readonly Volume[]> {
    return this.#call(pool, { kind: 'list' }) as Promise<readonly Volume[]>;
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#exited;
  }

  #call(pool: string, action: Request['action']): Promise<unknown> {
    const call = ++this.#calls;
    const waiting = Promise.withResolvers();
    this.#waiting.set(call, waiting);
    this.#child.send({ call, pool, action } satisfies Request);
    return waiting.promise;
  }
}

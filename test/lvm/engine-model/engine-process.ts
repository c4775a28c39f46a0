import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { type ErrorCode, MoorageError } from '../../../src/base/errors.ts';
import type { Capacity, NewSnapshot, NewVolume, Volume, VolumeId } from '../../../src/storage/pool.ts';

/** What changes volumes, and can be repeated. */
export type Change =
  | { readonly kind: 'create'; readonly wanted: NewVolume }
  | { readonly kind: 'grow'; readonly id: VolumeId; readonly sizeBytes: bigint }
  | { readonly kind: 'tag'; readonly id: VolumeId; readonly tags: readonly string[] }
  | { readonly kind: 'snapshot'; readonly source: VolumeId; readonly wanted: NewSnapshot }
  | { readonly kind: 'remove'; readonly id: VolumeId };

export interface Request {
  readonly call: number;
  readonly pool: string;
  readonly action: Change | { readonly kind: 'list' | 'capacity' };
}

export interface Answer {
  readonly call: number;
  readonly value?: unknown;
  readonly error?: { readonly code: ErrorCode; readonly message: string };
}

/** The engine said no. */
export class Refused extends MoorageError {
  readonly code: ErrorCode;
  constructor({ code, message }: { readonly code: ErrorCode; readonly message: string }) {
    super(message);
    this.code = code;
  }
}

/** The engine was killed before it answered. */
export class EngineDied extends MoorageError {
  readonly code = 'Unavailable';
}

/** The storage engine as a process of its own, so that it can be killed at any moment. */
export class EngineProcess {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>();
  readonly #exited: Promise<unknown>;
  #calls = 0;

  private constructor(configPath: string) {
    const file = join(import.meta.dirname, 'engine-child.ts');
    this.#child = fork(file, [configPath], { serialization: 'advanced', execArgv: [] }); // else it would be a test runner too
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

  capacity(pool: string): Promise<Capacity> {
    return this.#call(pool, { kind: 'capacity' }) as Promise<Capacity>;
  }

  /** As a crash does: it can end nothing that it has begun. What it has started may go on for a moment. */
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

import { MoorageError } from '../base/errors.ts';
import { CommandFailed, type Run } from '../base/exec.ts';
import { KeyedLock } from '../base/keyed-lock.ts';
import { VolumeInUse } from '../engine/errors.ts';
import { luksDevicePath } from '../engine/luks-device.ts';
import type { VolumeId } from '../engine/pool.ts';

/** The cost of trying a key; each open costs the same. */
export interface KeyDerivation {
  readonly memoryBytes: number;
  /** At least 4. */
  readonly iterations: number;
  readonly threads: number;
}

/**
 * Fixed, not benchmarked as cryptsetup does by default: up to half of a node's memory per volume is too much when all
 * volumes are opened at once after a boot.
 */
export const defaultDerivation: KeyDerivation = { memoryBytes: 64 * 1024 ** 2, iterations: 4, threads: 1 };

/** How many keys are derived at once: each takes the memory of its derivation. */
const derivationsAtOnce = 4;
const timeoutMs = 120_000;
/** Exit codes of cryptsetup. */
const [keyRefused, busy] = [2, 5];

/**
 * Runs cryptsetup. A key reaches it through a pipe: it is never an argument, in the environment, in a file, or in an error. A
 * command that has started finishes even if the caller leaves, as half a header helps nobody.
 */
export class Cryptsetup {
  readonly #run: Run;
  readonly #turns = new KeyedLock();
  #derivations = 0;

  constructor(run: Run) {
    this.#run = run;
  }

  async withoutKey(id: VolumeId, args: readonly string[]): Promise<void> {
    try {
      await this.#run(['cryptsetup', ...args], { timeoutMs });
    } catch (error) {
      throw translated(id, error);
    }
  }

  async withKey(id: VolumeId, args: readonly string[], key: Uint8Array, signal: AbortSignal): Promise<void> {
    const turn = String(this.#derivations++ % derivationsAtOnce);
    try {
      await this.#turns.run(turn, signal, () => this.#run(['cryptsetup', ...args], { timeoutMs, input: key }));
    } catch (error) {
      throw translated(id, error);
    }
  }
}

export function derivationArguments({ memoryBytes, iterations, threads }: KeyDerivation): string[] {
  return [
    ...['--pbkdf', 'argon2id', '--pbkdf-memory', String(Math.ceil(memoryBytes / 1024))],
    ...['--pbkdf-force-iterations', String(iterations), '--pbkdf-parallel', String(threads)],
  ];
}

function translated(id: VolumeId, error: unknown): unknown {
  if (!(error instanceof CommandFailed)) return error;
  if (error.exitCode === keyRefused) return new WrongKey(id, { cause: error });
  if (error.exitCode === busy) return new VolumeInUse(id, luksDevicePath(id), { cause: error });
  return error;
}

export class WrongKey extends MoorageError {
  readonly code = 'PermissionDenied';

  constructor(id: VolumeId, options?: ErrorOptions) {
    super(
      `the key does not open volume ${id}; use the passphrase that it was encrypted with or last changed to in its Secret`,
      options,
    );
  }
}

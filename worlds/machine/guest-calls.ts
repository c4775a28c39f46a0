import { randomUUID } from 'node:crypto';
import { closeSync, constants, existsSync, openSync, readFileSync, readSync, watch, writeSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CallTimedOut } from './errors.ts';
import type { CallOptions, CallResult } from './machine.ts';

const defaultTimeoutMs = 180_000;

/**
 * Runs commands in the guest, without a network: scripts and results are files in a directory that host and guest share,
 * and a line on the guest's serial port is the doorbell. Any number of calls can run at once.
 */
export class GuestCalls {
  readonly #machineName: string;
  readonly #callsDir: string;
  readonly #doorbell: string;

  constructor(machineName: string, machineDir: string) {
    this.#machineName = machineName;
    this.#callsDir = join(machineDir, 'calls');
    this.#doorbell = join(machineDir, 'doorbell');
  }

  /** Runs a script. `signal` ends the wait when the machine is gone. */
  async run(script: string, options: CallOptions, signal: AbortSignal): Promise<CallResult> {
    const id = randomUUID();
    const dir = join(this.#callsDir, id);
    await mkdir(dir);
    try {
      await Promise.all([
        writeFile(join(dir, 'script'), script),
        writeFile(join(dir, 'stdout'), ''),
        writeFile(join(dir, 'stderr'), ''),
      ]);
      return await this.#wait(id, dir, script, options, signal);
    } finally {
      await rm(dir, { recursive: true, force: true, maxRetries: 5 }); // a killed call may still be writing its exit code
    }
  }

  /** Writes one line to the guest's serial port. Throws ENXIO when no machine listens. */
  ring(line: string): void {
    const fd = openSync(this.#doorbell, constants.O_WRONLY | constants.O_NONBLOCK);
    try {
      writeSync(fd, `${line}\n`);
    } finally {
      closeSync(fd);
    }
  }

  async #wait(id: string, dir: string, script: string, options: CallOptions, signal: AbortSignal): Promise<CallResult> {
    const timeoutMs = options.timeoutMs ?? defaultTimeoutMs;
    using stdout = new GrowingFile(join(dir, 'stdout'), options.onStdout);
    using stderr = new GrowingFile(join(dir, 'stderr'), options.onStderr);
    const ended = Promise.withResolvers<number>();
    const watcher = watch(dir, (_event, file) => {
      stdout.readOn();
      stderr.readOn();
      if (file !== 'exit') return;
      const code = readFileSync(join(dir, 'exit'), 'utf8');
      if (code.endsWith('\n')) ended.resolve(Number(code)); // otherwise it was created, but not yet written
    });
    watcher.on('error', ended.reject);
    const onGone = () => ended.reject(signal.reason as Error);
    signal.addEventListener('abort', onGone);
    const deadline = setTimeout(() => {
      try {
        const leader = join(dir, 'leader');
        if (existsSync(leader)) this.ring(`kill ${readFileSync(leader, 'utf8').trim()}`);
        ended.reject(new CallTimedOut(this.#machineName, script, timeoutMs, `${stdout.text()}${stderr.text()}`));
      } catch (error) {
        ended.reject(error);
      }
    }, timeoutMs);
    try {
      signal.throwIfAborted();
      this.ring(`run ${id}`);
      const exitCode = await ended.promise;
      stdout.readOn();
      stderr.readOn();
      return { stdout: stdout.text(), stderr: stderr.text(), exitCode, stdoutBytes: stdout.bytes() };
    } finally {
      clearTimeout(deadline);
      signal.removeEventListener('abort', onGone);
      watcher.close();
    }
  }
}

/** A file that the guest appends to, read as it grows. */
class GrowingFile implements Disposable {
  readonly #fd: number;
  readonly #pieces: Buffer[] = [];
  readonly #onPiece: ((piece: Buffer) => void) | undefined;

  constructor(path: string, onPiece: ((piece: Buffer) => void) | undefined) {
    this.#fd = openSync(path, 'r');
    this.#onPiece = onPiece;
  }

  readOn(): void {
    for (;;) {
      const buffer = Buffer.allocUnsafe(64 * 1024);
      const length = readSync(this.#fd, buffer);
      if (length === 0) return;
      const piece = buffer.subarray(0, length);
      this.#pieces.push(piece);
      this.#onPiece?.(piece);
    }
  }

  bytes(): Buffer {
    return Buffer.concat(this.#pieces);
  }

  text(): string {
    return this.bytes().toString('utf8');
  }

  [Symbol.dispose](): void {
    closeSync(this.#fd);
  }
}

import { webcrypto } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { type Clock, systemClock } from '../../base/clock.ts';
import { DiskStuck } from './errors.ts';

/** A disk that takes longer for one read or write hangs. */
const defaultTimeoutMs = 120_000;

/** A device that is read and written past the page cache, in order to see what is on the disk and to leave memory to pods. */
export class Disk {
  readonly path: string;
  readonly #file: FileHandle;
  readonly #timeoutMs: number;
  readonly #clock: Clock;

  constructor(path: string, file: FileHandle, { timeoutMs = defaultTimeoutMs, clock = systemClock } = {}) {
    this.path = path;
    this.#file = file;
    this.#timeoutMs = timeoutMs;
    this.#clock = clock;
  }

  async read(into: Uint8Array, offset: number): Promise<void> {
    for (let done = 0; done < into.length; ) {
      const { bytesRead } = await this.#inTime(this.#file.read(into, done, into.length - done, offset + done));
      if (bytesRead === 0) throw new RangeError(`${this.path} ends at ${offset + done}`);
      done += bytesRead;
    }
  }

  async write(data: Uint8Array, offset: number): Promise<void> {
    for (let done = 0; done < data.length; ) {
      const { bytesWritten } = await this.#inTime(this.#file.write(data, done, data.length - done, offset + done));
      done += bytesWritten;
    }
  }

  async flush(): Promise<void> {
    await this.#inTime(this.#file.datasync());
  }

  async #inTime<T>(work: Promise<T>): Promise<T> {
    const stuck = Promise.withResolvers<never>();
    const timer = this.#clock.setTimer(() => stuck.reject(new DiskStuck(this.path, this.#timeoutMs)), this.#timeoutMs);
    try {
      return await Promise.race([work, stuck.promise]);
    } finally {
      timer.cancel();
    }
  }
}

/** In one of the threads for file I/O, so that several pieces are hashed at the same time. */
export async function sha256(data: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  return new Uint8Array(await webcrypto.subtle.digest('SHA-256', data));
}

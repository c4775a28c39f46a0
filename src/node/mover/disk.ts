import { webcrypto } from 'node:crypto';
import { constants, type FileHandle, open } from 'node:fs/promises';
import { systemClock } from '../../base/clock.ts';
import { DiskFailed, DiskStuck } from './errors.ts';

/** A disk that takes longer for one read or write hangs. */
const timeoutMs = 120_000;

/** Opens a device to be read and written past the page cache: to see what is on the disk, and to leave memory to pods. */
export async function openDisk(path: string, flags: number): Promise<Disk> {
  const file = await open(path, flags | constants.O_DIRECT).catch((error: unknown) => {
    throw new DiskFailed('open', path, error);
  });
  return new Disk(path, file);
}

export class Disk implements AsyncDisposable {
  readonly path: string;
  readonly #file: FileHandle;

  constructor(path: string, file: FileHandle) {
    this.path = path;
    this.#file = file;
  }

  async read(into: Uint8Array, offset: number): Promise<void> {
    for (let done = 0; done < into.length; ) {
      const reading = this.#file.read(into, done, into.length - done, offset + done);
      const { bytesRead } = await this.#inTime('read', reading);
      if (bytesRead === 0) throw new DiskFailed('read', this.path, `it ends at ${offset + done}`);
      done += bytesRead;
    }
  }

  async write(data: Uint8Array, offset: number): Promise<void> {
    for (let done = 0; done < data.length; ) {
      const writing = this.#file.write(data, done, data.length - done, offset + done);
      done += (await this.#inTime('write', writing)).bytesWritten;
    }
  }

  async flush(): Promise<void> {
    await this.#inTime('flush', this.#file.datasync());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file.close();
  }

  async #inTime<T>(what: string, work: Promise<T>): Promise<T> {
    const stuck = Promise.withResolvers<never>();
    const timer = systemClock.setTimer(() => stuck.reject(new DiskStuck(this.path, timeoutMs)), timeoutMs);
    const done = work.catch((error: unknown) => {
      throw new DiskFailed(what, this.path, error);
    });
    try {
      return await Promise.race([done, stuck.promise]);
    } finally {
      timer.cancel();
    }
  }
}

/** In one of the threads for file I/O, so that several pieces are hashed at the same time. */
export async function sha256(data: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  return new Uint8Array(await webcrypto.subtle.digest('SHA-256', data));
}

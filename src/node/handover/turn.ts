import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { nobodyListens, untilClosed } from '../../rpc/socket-answers.ts';

/**
 * A place in a line of processes that take turns.
 *
 * Each place has a number, higher than all existing ones, and is a socket that listens until the turn ends. The kernel
 * closes the socket of a killed process, so those who wait notice at once. While a process chooses its number, a second
 * socket says so, because two that choose at once do not see each other (Lamport's bakery).
 */
export class Turn {
  readonly #directory: string;
  readonly #place: Place;
  readonly #listener: Listener;

  private constructor(directory: string, place: Place, listener: Listener) {
    this.#directory = directory;
    this.#place = place;
    this.#listener = listener;
  }

  /** Takes the last place of the line in this directory. Does not wait. */
  static async take(directory: string): Promise<Turn> {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const who = randomBytes(4).toString('hex');
    const choosing = await Listener.open(join(directory, `${choosingPrefix}${who}`));
    try {
      const number = 1 + Math.max(0, ...(await readdir(directory)).map((name) => placeOf(name)?.number ?? 0));
      const listener = await Listener.open(join(directory, `${number}-${who}`));
      return new Turn(directory, { number, who }, listener);
    } finally {
      choosing.close();
    }
  }

  /** Whether this place is the first. */
  async hasCome(signal: AbortSignal): Promise<boolean> {
    return (await this.#somebodyBefore(signal)) === undefined;
  }

  /** Waits for all earlier places. */
  async comes(signal: AbortSignal): Promise<void> {
    for (;;) {
      const path = await this.#somebodyBefore(signal);
      if (!path) return;
      await untilClosed(path, signal);
    }
  }

  /** Releases the place. */
  end(): void {
    this.#listener.close();
  }

  /** Reads the numbers after all pending choices are made, which is quick; processes that arrive later see ours. */
  async #somebodyBefore(signal: AbortSignal): Promise<string | undefined> {
    for (const name of await readdir(this.#directory)) {
      if (name.startsWith(choosingPrefix)) await untilClosed(join(this.#directory, name), signal);
    }
    for (const name of await readdir(this.#directory)) {
      const path = join(this.#directory, name);
      const place = placeOf(name);
      if (!place || !isBefore(place, this.#place)) continue;
      if (!(await nobodyListens(path))) return path;
      await rm(path, { force: true }); // its process was killed
    }
    return undefined;
  }
}

const choosingPrefix = 'new-';

interface Place {
  readonly number: number;
  /** Decides between two places with the same number. */
  readonly who: string;
}

function placeOf(name: string): Place | undefined {
  const [, number, who] = /^(\d+)-(\w+)$/.exec(name) ?? [];
  return number && who ? { number: Number(number), who } : undefined;
}

function isBefore(one: Place, other: Place): boolean {
  return one.number < other.number || (one.number === other.number && one.who < other.who);
}

/** Accepts connections and sends nothing, until it is closed or its process exits. It does not keep the process alive. */
class Listener {
  readonly #server: Server;
  readonly #connections = new Set<Socket>();

  private constructor() {
    this.#server = createServer((connection) => {
      this.#connections.add(connection);
      connection.once('close', () => this.#connections.delete(connection));
      connection.on('error', () => undefined); // the connection closes then, too
      connection.resume().unref();
    }).unref();
  }

  static async open(path: string): Promise<Listener> {
    const listener = new Listener();
    listener.#server.listen(path);
    await once(listener.#server, 'listening');
    return listener;
  }

  /** Also removes the socket's file. */
  close(): void {
    this.#server.close();
    for (const connection of this.#connections) connection.destroy();
  }
}

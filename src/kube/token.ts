import type { Clock } from '../base/clock.ts';
import type { TokenSource } from './connection.ts';
import { readCredential } from './credential-file.ts';

/** The kubelet replaces a token long before it expires (at 80 % of its life): looking once a minute is soon enough. */
const rereadAfterMs = 60_000;

/** A token in a file that somebody else keeps fresh. */
export class FileToken implements TokenSource {
  readonly #path: string;
  readonly #clock: Clock;
  #known: { readonly token: string; readonly readAtMs: number } | undefined;

  constructor(path: string, clock: Clock) {
    this.#path = path;
    this.#clock = clock;
  }

  async read(): Promise<string> {
    const nowMs = this.#clock.now();
    if (this.#known && nowMs - this.#known.readAtMs < rereadAfterMs) return this.#known.token;
    const token = (await readCredential(this.#path, 'the token')).trim();
    this.#known = { token, readAtMs: nowMs };
    return token;
  }

  refused(): void {
    this.#known = undefined;
  }
}

export function fixedToken(token: string): TokenSource {
  return { read: () => Promise.resolve(token), refused: () => {} };
}

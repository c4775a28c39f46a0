import { readFile } from 'node:fs/promises';
import type { Clock } from '../base/clock.ts';
import { MoorageError, messageOf } from '../base/errors.ts';
import type { CredentialSource, Credentials } from './connection.ts';

/** We cannot authenticate to the API server, or cannot verify it. */
export class CredentialsUnusable extends MoorageError {
  readonly code = 'FailedPrecondition';
}

export async function readCredential(path: string, what: string): Promise<string> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (cause) {
    throw new CredentialsUnusable(`cannot read ${what}: ${messageOf(cause)}; check the file and its permissions`, {
      cause,
    });
  }
  if (text.trim() === '') throw new CredentialsUnusable(`${what} in ${path} is empty; write it again`);
  return text;
}

/** The kubelet replaces a token at 80 % of its lifetime, long before it expires: reading it once a minute is enough. */
const rereadAfterMs = 60_000;

/** Credentials in files that another process keeps fresh. */
export class FileCredentials implements CredentialSource {
  readonly #readFiles: () => Promise<Credentials>;
  readonly #clock: Clock;
  #known: { readonly credentials: Credentials; readonly readAtMs: number } | undefined;

  private constructor(readFiles: () => Promise<Credentials>, clock: Clock) {
    this.#readFiles = readFiles;
    this.#clock = clock;
  }

  /** Missing files are reported at the start, not at the first request. */
  static async open(readFiles: () => Promise<Credentials>, clock: Clock): Promise<FileCredentials> {
    const credentials = new FileCredentials(readFiles, clock);
    await credentials.read();
    return credentials;
  }

  async read(): Promise<Credentials> {
    const nowMs = this.#clock.monotonic();
    if (this.#known && nowMs - this.#known.readAtMs < rereadAfterMs) return this.#known.credentials;
    const credentials = await this.#readFiles();
    this.#known = { credentials, readAtMs: nowMs };
    return credentials;
  }

  refused(): void {
    this.#known = undefined;
  }
}

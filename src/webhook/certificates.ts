import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../base/clock.ts';
import { DirectoryWatch } from '../base/directory-watch.ts';
import { MoorageError, messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import type { Certificate } from '../http/self-signed.ts';

export interface CertificatesOptions {
  /** Holds `tls.crt` and `tls.key`, as a mounted Secret does. */
  readonly dir: string;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * The serving certificate, loaded again when it is renewed. A pair that does not match is rejected, and the previous one
 * stays in use.
 */
export class Certificates {
  readonly #dir: string;
  readonly #log: Log;
  readonly #watch: DirectoryWatch;
  #current: Certificate = { cert: '', key: '' };
  #onRenewed: (renewed: Certificate) => void = () => {};

  private constructor({ dir, clock, log }: CertificatesOptions) {
    this.#dir = dir;
    this.#log = log;
    this.#watch = new DirectoryWatch({ directory: dir, clock, log, read: () => this.#renew() });
  }

  /** The first pair must be valid: there is no previous one. */
  static async open(options: CertificatesOptions): Promise<Certificates> {
    let certificates: Certificates | undefined;
    try {
      certificates = new Certificates(options);
      certificates.#current = await readPair(options.dir);
      return certificates;
    } catch (cause) {
      certificates?.close();
      throw new CertificateUnusable(options.dir, cause);
    }
  }

  get current(): Certificate {
    return this.#current;
  }

  onRenewed(listener: (renewed: Certificate) => void): void {
    this.#onRenewed = listener;
    this.#watch.readSoon();
  }

  close(): void {
    this.#watch.close();
  }

  async #renew(): Promise<void> {
    try {
      const found = await readPair(this.#dir);
      if (found.cert === this.#current.cert && found.key === this.#current.key) return;
      this.#current = found;
      this.#onRenewed(found);
    } catch (cause) {
      const error = new CertificateUnusable(this.#dir, cause);
      this.#log.error({ err: error }, `keeping the old certificate: ${error.message}`);
    }
  }
}

async function readPair(dir: string): Promise<Certificate> {
  const read = (file: string) => readFile(join(dir, file), 'utf8');
  const pair = { cert: await read('tls.crt'), key: await read('tls.key') };
  if (!new X509Certificate(pair.cert).checkPrivateKey(createPrivateKey(pair.key))) {
    throw new Error('tls.key does not match tls.crt');
  }
  return pair;
}

export class CertificateUnusable extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(dir: string, cause: unknown) {
    super(
      `cannot use the certificate in ${dir}: ${messageOf(cause)}; ` +
        'put a matching tls.crt and tls.key there, or pass another --cert-dir',
      { cause },
    );
  }
}

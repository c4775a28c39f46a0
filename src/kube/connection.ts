import type { ImpersonationHeaders } from './impersonation.ts';

/** How to reach one API server, and with which credentials. */
export interface Connection {
  /** Scheme, host and port, and an optional path prefix; no trailing slash. */
  readonly server: string;
  readonly credentials: CredentialSource;
}

export interface Credentials {
  readonly tls: Tls;
  /** The bearer token to send, if we authenticate with one. */
  readonly token?: string;
  /** The user to impersonate, if any. */
  readonly impersonation?: ImpersonationHeaders;
}

export interface Tls {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  /** The name in the server's certificate, if it differs from the host in `server`. */
  readonly serverName?: string;
}

/** Credentials change at run time: each request reads them. */
export interface CredentialSource {
  read(): Promise<Credentials>;
  /**
   * The server refused them (`isUnauthorized`), or we could not reach or did not trust the server: the next `read` must not
   * use what is cached from files.
   */
  refused(isUnauthorized: boolean): void;
}

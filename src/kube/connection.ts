/** How to reach one API server, and as whom. */
export interface Connection {
  /** Scheme, host and port, and a path prefix if there is one; no slash at the end. */
  readonly server: string;
  readonly credentials: CredentialSource;
}

export interface Credentials {
  readonly tls: Tls;
  /** The bearer token to send, if that is how we show who we are. */
  readonly token?: string;
}

export interface Tls {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  /** The name that the server's certificate must carry, where it differs from the host in `server`. */
  readonly serverName?: string;
}

/** Credentials are replaced while we run: each request asks for them. */
export interface CredentialSource {
  read(): Promise<Credentials>;
  /** The server did not accept them, or we did not accept the server: the next `read` must not answer from memory. */
  refused(): void;
}

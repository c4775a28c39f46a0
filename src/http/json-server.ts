import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http';
import type { Server as HttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { codeOf, type ErrorCode, InvalidInput, MoorageError, messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { parseAddress } from './address.ts';

/** Gets the body, undefined if there is none. A string is sent as text, anything else as JSON. */
export type Answer = (body: unknown) => unknown;

interface Collaborators {
  /** An HTTP or HTTPS server. */
  readonly server: HttpServer | HttpsServer;
  /** `host:port`; without a host, on every address. */
  readonly address: string;
  /** By path. */
  readonly answers: Readonly<Record<string, Answer>>;
  readonly log: Log;
}

/** The limit of TopoLVM's extender: some thousand Nodes. */
const maxBodyBytes = 10 << 20;
const requestTimeoutMs = 30_000;
/**
 * Longer than clients in Go keep an idle connection (90 s), so that it is they who close it. Otherwise a request can meet a
 * connection that is just being closed, and Go does not repeat it: a call of a webhook fails.
 */
const keepAliveMs = 120_000;

const httpStatus: Partial<Record<ErrorCode, number>> = { InvalidArgument: 400, NotFound: 404, OutOfRange: 413 };

/** Answers JSON requests. An error is answered with its message and a matching status. */
export class JsonServer {
  readonly #server: Collaborators['server'];
  readonly #address: string;
  readonly #answers: ReadonlyMap<string, Answer>;
  readonly #log: Log;
  #isLeaving = false;

  constructor({ server, address, answers, log }: Collaborators) {
    this.#server = server;
    this.#address = address;
    this.#answers = new Map(Object.entries(answers));
    this.#log = log;
    server.requestTimeout = requestTimeoutMs;
    server.keepAliveTimeout = keepAliveMs;
    server.on('request', (request: IncomingMessage, response: ServerResponse) => void this.#respond(request, response));
  }

  async listen(): Promise<AddressInfo> {
    const { host, port } = parseAddress(this.#address);
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen({ host, port }, resolve);
    });
    return this.#server.address() as AddressInfo;
  }

  /** From now on each connection closes after its answer, so that clients connect to another server. */
  leave(): void {
    this.#isLeaving = true;
  }

  /** Accepts no new requests, and returns after the last answer; a request that never ends is cut off by its timeout. */
  async stop(): Promise<void> {
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.#isLeaving) response.setHeader('connection', 'close');
    try {
      const answer = this.#answers.get(new URL(request.url ?? '', 'http://localhost').pathname);
      if (!answer) throw new NoSuchPath([...this.#answers.keys()]);
      const found = await answer(await readJson(request));
      const isText = typeof found === 'string';
      response.setHeader('content-type', isText ? 'text/plain' : 'application/json');
      response.end(isText ? found : JSON.stringify(found));
    } catch (error) {
      const status = httpStatus[codeOf(error)] ?? 500;
      this.#log[status === 500 ? 'error' : 'warn']({ err: error, url: request.url }, messageOf(error));
      // The rest of the body would be taken for the next request.
      response.setHeader('connection', 'close');
      response.writeHead(status, { 'content-type': 'text/plain' }).end(`${messageOf(error)}\n`);
    }
  }
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBodyBytes) throw new BodyTooLarge();
    chunks.push(chunk);
  }
  if (bytes === 0) return undefined;
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch (error) {
    throw new InvalidInput(`the body is not JSON: ${messageOf(error)}; send a JSON object`, { cause: error });
  }
}

class BodyTooLarge extends MoorageError {
  readonly code = 'OutOfRange';

  constructor() {
    super(`the body is larger than ${maxBodyBytes >> 20} MiB; send less, such as fewer nodes`);
  }
}

class NoSuchPath extends MoorageError {
  readonly code = 'NotFound';

  constructor(paths: readonly string[]) {
    super(`not found; use ${paths.join(' or ')}`);
  }
}

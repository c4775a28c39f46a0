import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import type { Connection } from '../../src/kube/connection.ts';
import type { Scope } from './api-server.ts';

/** A network link between a client and the API server that a test can break. */
export class Link {
  readonly connection: Connection;
  readonly #wires: Wires;

  private constructor(connection: Connection, wires: Wires) {
    this.connection = connection;
    this.#wires = wires;
  }

  static async to(scope: Scope, target: Connection): Promise<Link> {
    const { hostname, port } = new URL(target.server);
    const wires = new Wires(() => connect({ host: hostname, port: Number(port) }));
    const server = createServer((near) => wires.join(near));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    scope.after(() => {
      server.close();
      wires.reset();
    });
    const address = server.address() as AddressInfo;
    return new Link({ ...target, server: `https://127.0.0.1:${address.port}` }, wires);
  }

  /** Resets all connections, and new ones too, until it is repaired. */
  cut(): void {
    this.#wires.broken = true;
    this.#wires.reset();
  }

  mend(): void {
    this.#wires.broken = false;
  }

  /** Open connections stay open but carry nothing, as if a cable were pulled. New ones work. */
  swallow(): void {
    this.#wires.swallow();
  }
}

class Wires {
  broken = false;
  readonly #pairs = new Set<readonly [Socket, Socket]>();
  readonly #dial: () => Socket;

  constructor(dial: () => Socket) {
    this.#dial = dial;
  }

  join(near: Socket): void {
    if (this.broken) {
      near.resetAndDestroy();
      return;
    }
    const far = this.#dial();
    const pair = [near, far] as const;
    this.#pairs.add(pair);
    near.pipe(far).pipe(near);
    near.on('error', () => far.destroy()).on('close', () => far.destroy());
    far.on('error', () => near.resetAndDestroy()).on('close', () => this.#pairs.delete(pair));
  }

  reset(): void {
    for (const sockets of this.#pairs) {
      for (const socket of sockets) socket.resetAndDestroy();
    }
  }

  swallow(): void {
    for (const [near, far] of this.#pairs) {
      near.unpipe(far).resume();
      far.unpipe(near).resume();
    }
  }
}

import { type Flags, flag, oneOf, path } from '../base/flags.ts';
import type { Methods } from '../rpc/client.ts';
import type { Health } from '../rpc/gen/grpc/health/v1/health_pb.ts';
import type { LVService, VGService } from '../rpc/gen/lvmd/lvmd_pb.ts';
import type { EngineService } from '../rpc/gen/moorage/v1/engine_pb.ts';
import { whyNoAnswer } from '../rpc/socket-answers.ts';
import { EngineUnreachable } from './exit-code.ts';

/** Flags of every command that talks to the engine. */
export const engineFlags = {
  socket: flag({
    name: 'socket',
    type: path,
    default: '/run/topolvm/lvmd.sock',
    description: 'Unix socket of the storage engine',
  }),
  output: flag({
    name: 'output',
    short: 'o',
    type: oneOf(['table', 'json']),
    default: 'table',
    description: 'Output format: table for people, json for programs',
  }),
} as const satisfies Flags;

/** The services of the engine on its socket. */
export class EngineClient implements Disposable {
  readonly #connections: Disposable;
  readonly volumes: Methods<typeof LVService>;
  readonly groups: Methods<typeof VGService>;
  readonly engine: Methods<typeof EngineService>;
  readonly health: Methods<typeof Health>;

  /** Checks first whether the socket answers: gRPC would only report that it could not connect. */
  static async connect(socketPath: string): Promise<EngineClient> {
    const obstacle = await whyNoAnswer(socketPath);
    if (obstacle) throw new EngineUnreachable(explain(obstacle, socketPath));
    return new EngineClient(socketPath, await loadServices());
  }

  private constructor(socketPath: string, loaded: Awaited<ReturnType<typeof loadServices>>) {
    const { RpcClient, LVService, VGService, EngineService, Health } = loaded;
    const connections = new DisposableStack();
    this.#connections = connections;
    this.volumes = connections.use(new RpcClient(LVService, socketPath)).methods;
    this.groups = connections.use(new RpcClient(VGService, socketPath)).methods;
    this.engine = connections.use(new RpcClient(EngineService, socketPath)).methods;
    this.health = connections.use(new RpcClient(Health, socketPath)).methods;
  }

  [Symbol.dispose](): void {
    this.#connections[Symbol.dispose]();
  }
}

/** gRPC takes a moment to load, so only commands that call the engine load it. */
async function loadServices() {
  return {
    ...(await import('../rpc/client.ts')),
    ...(await import('../rpc/gen/lvmd/lvmd_pb.ts')),
    ...(await import('../rpc/gen/moorage/v1/engine_pb.ts')),
    ...(await import('../rpc/gen/grpc/health/v1/health_pb.ts')),
  };
}

function explain(obstacle: string, socketPath: string): string {
  const elsewhere = 'or pass its socket with --socket';
  switch (obstacle) {
    case 'ENOENT':
      return `no storage engine is running: there is no ${socketPath}; start one with moorage lvmd or moorage node, ${elsewhere}`;
    case 'ECONNREFUSED':
      return `no storage engine listens on ${socketPath}; start it with moorage lvmd or moorage node, ${elsewhere}`;
    case 'EACCES':
      return `no permission to open ${socketPath}; run this command as root`;
    default:
      return `cannot reach the storage engine on ${socketPath} (${obstacle}); check that it is running, ${elsewhere}`;
  }
}

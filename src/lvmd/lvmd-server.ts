import type { Clock } from '../base/clock.ts';
import { MoorageError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import type { Pools } from '../engine/pools.ts';
import { Health } from '../rpc/gen/grpc/health/v1/health_pb.ts';
import { LVService, VGService } from '../rpc/gen/lvmd/lvmd_pb.ts';
import { EngineService } from '../rpc/gen/moorage/v1/engine_pb.ts';
import { type AnsweredCall, RpcServer } from '../rpc/server.ts';
import { nobodyListens } from '../rpc/socket-answers.ts';
import { DeviceNumbers } from './device-numbers.ts';
import { engineHealth } from './engine-health.ts';
import { engineService } from './engine-service.ts';
import { lvService } from './lv-service.ts';
import { maxRequestBytes } from './requests.ts';
import { vgService } from './vg-service.ts';
import { VolumeMessages } from './volume-message.ts';

interface Collaborators {
  readonly socketPath: string;
  readonly pools: Pools;
  readonly onAnswered?: (call: AnsweredCall) => void;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Call this before starting an engine: two engines would not know each other's changes, and both would continue the same
 * unfinished work.
 */
export async function mustBeOnlyLvmd(socketPath: string): Promise<void> {
  if (!(await nobodyListens(socketPath))) throw new SocketTaken(socketPath);
}

/** Serves an engine on its socket. */
export async function serveLvmd({ socketPath, pools, onAnswered, clock, log }: Collaborators): Promise<RpcServer> {
  const messages = new VolumeMessages(new DeviceNumbers(log));
  const server = new RpcServer({ socketPath, clock, log, maxRequestBytes, ...(onAnswered && { onAnswered }) })
    .add(LVService, lvService(pools, messages))
    .add(VGService, vgService(pools, messages))
    .add(EngineService, engineService(pools, clock))
    .add(Health, engineHealth(pools, clock));
  await server.listen();
  return server;
}

export class SocketTaken extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(socketPath: string) {
    super(`another lvmd answers on ${socketPath}; stop it first, or let moorage node use it with --embed-lvmd=false`);
  }
}

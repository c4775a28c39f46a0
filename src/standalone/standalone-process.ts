import { once } from 'node:events';
import type { Clock } from '../base/clock.ts';
import type { Run } from '../base/exec.ts';
import type { Log } from '../base/log.ts';
import { controllerService } from '../csi/controller/controller-service.ts';
import type { NodeCapacities } from '../csi/controller/volume-store.ts';
import { identityService } from '../csi/identity-service.ts';
import { nodeService } from '../csi/node/node-service.ts';
import type { Pools } from '../engine/pools.ts';
import { Controller, Identity, Node } from '../rpc/gen/csi/v1/csi_pb.ts';
import { Health } from '../rpc/gen/grpc/health/v1/health_pb.ts';
import { healthService } from '../rpc/health-service.ts';
import { RpcServer } from '../rpc/server.ts';
import { EncryptedVolumes } from '../volumes/encrypted-volumes.ts';
import { EphemeralVolumes } from '../volumes/ephemeral-volumes.ts';
import { PublishedVolumes } from '../volumes/published-volumes.ts';
import { RecordedVolumes } from './recorded-volumes.ts';
import { startEngine } from './standalone-engine.ts';
import { StandaloneSnapshots } from './standalone-snapshots.ts';
import { StandaloneVolumes } from './standalone-volumes.ts';

export interface StandaloneOptions {
  readonly nodeName: string;
  readonly csiSocket: string;
  /** Empty for volumes as files in the default directory. */
  readonly configFile: string;
  readonly stateDirectory: string;
  readonly version: string;
}

export interface StandaloneCollaborators {
  readonly run: Run;
  /** The environment of LVM commands. */
  readonly env: NodeJS.ProcessEnv;
  readonly clock: Clock;
  readonly log: Log;
}

/** How long running calls may take when the process stops. */
const graceMs = 20_000;

/** All of CSI on one socket, for this machine only. Runs until the signal aborts, then finishes running work and returns. */
export async function runStandalone(
  options: StandaloneOptions,
  collaborators: StandaloneCollaborators,
  signal: AbortSignal,
): Promise<void> {
  const { nodeName, csiSocket, version } = options;
  const { run, clock, log } = collaborators;
  await using parts = new AsyncDisposableStack(); // stopped in reverse: first no new calls, last the engine

  const { engine, server } = await startEngine(options, collaborators, signal);
  parts.defer(() => engine.stop());
  parts.defer(() => server.stop(graceMs));
  const { pools } = engine;

  const recorded = new RecordedVolumes(pools);
  const csi = new RpcServer({ socketPath: csiSocket, clock, log })
    .add(Identity, identityService({ version, ready: () => true }))
    .add(
      Health,
      healthService(() => true),
    )
    .add(
      Controller,
      controllerService({
        volumes: new StandaloneVolumes({ nodeName, pools, recorded, clock }),
        snapshots: new StandaloneSnapshots({ nodeName, recorded, clock }),
        capacities: new OwnCapacities(nodeName, pools),
      }),
    )
    .add(
      Node,
      nodeService({
        nodeName,
        volumes: PublishedVolumes.create({
          pools,
          ephemeral: new EphemeralVolumes({ pools, log }),
          encrypted: EncryptedVolumes.create({ run, log }),
          run,
        }),
      }),
    );
  await csi.listen();
  parts.defer(() => csi.stop(graceMs));

  if (!signal.aborted) await once(signal, 'abort');
  log.info('stopping');
}

/** The capacity of this machine, the only node. */
export class OwnCapacities implements NodeCapacities {
  readonly #nodeName: string;
  readonly #pools: Pick<Pools, 'all' | 'default'>;

  constructor(nodeName: string, pools: Pick<Pools, 'all' | 'default'>) {
    this.#nodeName = nodeName;
    this.#pools = pools;
  }

  freeBytes(deviceClass: string): ReadonlyMap<string, bigint> {
    const pool = deviceClass ? this.#pools.all().find(({ name }) => name === deviceClass) : this.#pools.default;
    return new Map(pool ? [[this.#nodeName, pool.capacity().freeBytes]] : []);
  }

  leaving(): ReadonlySet<string> {
    return new Set();
  }

  /** Limits are set on the cgroup of a pod, and there are no pods. */
  limitingIo(): ReadonlySet<string> {
    return new Set();
  }

  mayLimitIo(): boolean {
    return false;
  }
}

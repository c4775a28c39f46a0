import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { collectDefaultMetrics, Registry } from 'prom-client';
import type { Clock } from '../base/clock.ts';
import type { Run } from '../base/exec.ts';
import type { Log } from '../base/log.ts';
import { MetricsServer } from '../metrics/metrics-server.ts';
import { parseStorageConfig } from '../storage/device-classes-yaml.ts';
import { Pools } from '../storage/pools.ts';
import { serveLvmd } from './lvmd-server.ts';

export interface LvmdOptions {
  readonly configFile: string;
  readonly metricsAddress: string;
}

export interface LvmdCollaborators {
  readonly run: Run;
  /** What LVM commands inherit. */
  readonly env: NodeJS.ProcessEnv;
  readonly clock: Clock;
  readonly log: Log;
}

/** How long changes under way may take when the process is told to stop; systemd and the kubelet give more. */
const graceMs = 20_000;

/** The storage engine of one node, alone. Runs until the signal aborts, then ends what it has begun and returns. */
export async function runLvmd(options: LvmdOptions, its: LvmdCollaborators, signal: AbortSignal): Promise<void> {
  const { run, env, clock, log } = its;
  const config = parseStorageConfig(await readFile(options.configFile, 'utf8'));
  const pools = await Pools.open(config, { run, env, log }, signal);

  await using parts = new AsyncDisposableStack(); // stopped in reverse: first no new calls
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const metrics = new MetricsServer({ address: options.metricsAddress, registry, log });
  await metrics.listen();
  parts.defer(() => metrics.stop());

  const server = await serveLvmd({ socketPath: config.socketPath, pools, clock, log });
  parts.defer(() => server.stop(graceMs));

  if (!signal.aborted) await once(signal, 'abort');
  log.info('stopping');
}

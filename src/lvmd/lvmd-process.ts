import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import type { Clock } from '../base/clock.ts';
import type { Run } from '../base/exec.ts';
import type { Log } from '../base/log.ts';
import { parseStorageConfig } from '../engine/config/device-classes-yaml.ts';
import { StorageEngine } from '../engine/storage-engine.ts';
import { configGauge, lvmMetrics, operationLatency } from '../metrics/engine-metrics.ts';
import { MetricsServer } from '../metrics/metrics-server.ts';
import { callLatency, processMetrics } from '../metrics/process-metrics.ts';
import { engineProblems } from './engine-health.ts';
import { mustBeOnlyLvmd, serveLvmd } from './lvmd-server.ts';

export interface LvmdOptions {
  readonly configFile: string;
  readonly stateDirectory: string;
  readonly metricsAddress: string;
}

export interface LvmdCollaborators {
  readonly run: Run;
  /** The environment of LVM commands. */
  readonly env: NodeJS.ProcessEnv;
  readonly clock: Clock;
  readonly log: Log;
}

/** How long running changes may take when the process stops; systemd and the kubelet allow more. */
const graceMs = 20_000;

/** Only the storage engine of one node. Runs until the signal aborts, then finishes running work and returns. */
export async function runLvmd(
  options: LvmdOptions,
  collaborators: LvmdCollaborators,
  signal: AbortSignal,
): Promise<void> {
  const { run, env, clock, log } = collaborators;
  await using parts = new AsyncDisposableStack(); // stopped in reverse: first no new calls, last the engine
  const { socketPath } = parseStorageConfig(await readFile(options.configFile, 'utf8'));
  await mustBeOnlyLvmd(socketPath);
  const calls = callLatency();
  const operations = operationLatency();
  const engine = await StorageEngine.start({ ...options, run, env, onDone: operations.observe, clock, log }, signal);
  parts.defer(() => engine.stop());

  const allMetrics = [
    configGauge(() => engine.configProblem),
    ...lvmMetrics(() => engine.lvmCounts),
    ...processMetrics(),
    calls.metric,
    operations.metric,
  ];
  const unready = () => engineProblems(engine).join('; ') || undefined;
  const metrics = new MetricsServer({ address: options.metricsAddress, metrics: allMetrics, unready, log });
  await metrics.listen();
  parts.defer(() => metrics.stop());

  const server = await serveLvmd({ socketPath, pools: engine.pools, onAnswered: calls.observe, clock, log });
  parts.defer(() => server.stop(graceMs));

  if (!signal.aborted) await once(signal, 'abort');
  log.info('stopping');
}

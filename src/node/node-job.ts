import type { Work } from '../base/work.ts';
import type { Informer } from '../kube/informer.ts';
import type { KubeObject } from '../kube/resource.ts';
import type { Metric } from '../metrics/metric.ts';
import type { NodeEngine } from './node-engine.ts';

export interface Stoppable {
  stop(graceMs: number): Promise<void>;
}

/** A job of the agent that can be switched off: CSI, or static volumes. */
export interface NodeJob {
  /** By name, for metrics and readiness. The process starts and stops them. */
  readonly watches: Readonly<Record<string, Pick<Informer<KubeObject>, WatchUse>>>;
  /** Called once, when no other agent works on this node. */
  begin(engine: NodeEngine): Promise<JobAtWork>;
}

type WatchUse = 'start' | 'stop' | 'synced' | 'size' | 'lastEventAtMs' | 'reconnects' | 'relists';

export interface JobAtWork {
  readonly work: readonly Work[];
  readonly metrics: readonly Metric[];
  /** Called once the work runs. Whatever it starts it passes on, to be stopped together with the work. */
  serve?(onStarted: (part: Stoppable) => void, signal: AbortSignal): Promise<void>;
  /** Called when all work has stopped. */
  end?(): Promise<void>;
}

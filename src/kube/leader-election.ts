import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { KubeClient } from './client.ts';

export declare class LeaderElection {
  constructor(collaborators: {
    client: KubeClient;
    namespace: string;
    name: string;
    /** Unique among all candidates, also among restarts: pod name and a random part. */
    identity: string;
    clock: Clock;
    log: Log;
  });
  get leading(): boolean;
  /**
   * Campaigns until `signal` aborts; while leading, `lead` runs, and its own signal aborts as soon as the lead is lost.
   * The lease is released after `lead` has ended.
   */
  run(lead: (signal: AbortSignal) => Promise<void>, signal: AbortSignal): Promise<void>;
}

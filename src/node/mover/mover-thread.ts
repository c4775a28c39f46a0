import { isMainThread, parentPort, workerData } from 'node:worker_threads';
import { type OfferedMove, type SourceAgent, SourceEnd } from './source-end.ts';
import { type PullRequest, type PullResult, pull, type TargetAgent } from './target-end.ts';
import { type Methods, ThreadCalls } from './thread-calls.ts';

/** TLS, hashes and the copying itself run in a thread of their own, so that the agent answers the kubelet meanwhile. */
export interface MoverThreadMethods extends Methods {
  offer(move: OfferedMove): Promise<{ readonly port: number }>;
  withdraw(move: { readonly moveUid: string }): Promise<void>;
  pull(request: PullRequest, signal: AbortSignal): Promise<PullResult>;
}

/** What the thread calls in the agent. */
export type AgentMethods = Methods & SourceAgent & TargetAgent;

/** This file is its own thread, wherever the bundle has it. */
export const threadUrl = new URL(import.meta.url);
export const threadName = 'moorage mover';

if (!isMainThread && workerData === threadName && parentPort) {
  const calls: ThreadCalls<AgentMethods> = new ThreadCalls(parentPort, {
    offer: (move: OfferedMove) => source.offer(move),
    withdraw: (move: OfferedMove) => source.withdraw(move),
    pull: (request: PullRequest, signal) => pull(request, agent, signal),
  });
  const agent: SourceAgent & TargetAgent = {
    round: (request, signal) => calls.call('round', request, signal),
    note: (event) => calls.call('note', event),
    begin: (begun) => calls.call('begin', begun),
    reached: (reached) => calls.call('reached', reached),
  };
  const source = new SourceEnd(agent);
}

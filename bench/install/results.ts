import { type Statistics, statisticsOf } from '../statistics.ts';
import { table } from '../table.ts';
import type { ContainerMemory } from './pod-memory.ts';
import type { Restart } from './restart.ts';

export interface InstallResults {
  readonly memory: readonly ContainerMemory[];
  /** Milliseconds. */
  readonly restarts: Readonly<Record<RestartCause, RestartStatistics>>;
}

export type RestartCause = 'killed' | 'deleted' | 'upgraded';

/** Each phase counts from the end of the previous one; `served` is the sum. */
type RestartStatistics = Readonly<Record<'kubelet' | 'agent' | 'registration' | 'served', Statistics>>;

export function restartStatistics(restarts: readonly Restart[]): RestartStatistics {
  const statistics = (part: (restart: Restart) => number) => statisticsOf(restarts.map(part));
  return {
    kubelet: statistics(({ processMs }) => processMs),
    agent: statistics(({ processMs, servingMs }) => servingMs - processMs),
    registration: statistics(({ servingMs, registeredMs }) => registeredMs - servingMs),
    served: statistics(({ servingMs }) => servingMs),
  };
}

/** The results as tables. */
export function installTables({ memory, restarts }: InstallResults): string {
  const words = ({ min, median, samples }: Statistics) => `${min} / ${median} (${samples})`;
  return [
    'What the containers hold, in MiB:',
    table([
      ['pod', 'container', 'RSS', 'PSS'],
      ...memory.map(({ component, container, rssMib, pssMib }) => [
        component,
        container,
        String(rssMib),
        String(pssMib),
      ]),
    ]),
    'An agent that was killed, whose pod was deleted, or that was upgraded, until the next one serves, in milliseconds: min / median (samples):',
    table([
      ['', 'until its process runs', 'until it answers', 'until the kubelet knows it', 'both first'],
      ...Object.entries(restarts).map(([cause, { kubelet, agent, registration, served }]) => [
        cause,
        ...[kubelet, agent, registration, served].map(words),
      ]),
    ]),
  ].join('\n\n');
}

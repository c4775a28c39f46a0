import type { Statistics } from '../statistics.ts';
import { table } from '../table.ts';

export interface PluginResults {
  readonly volumes: number;
  readonly nodes: number;
  /** Two for each command: the plugin, and kubectl, which lists the same objects. */
  readonly sides: readonly SideResults[];
}

export interface SideResults {
  readonly command: string;
  readonly side: 'kubectl get' | 'kubectl moorage';
  readonly ms: Statistics;
  readonly cpuMs: Statistics;
  /** The largest of all runs. */
  readonly peakMiB: number;
}

export function pluginTables({ volumes, nodes, sides }: PluginResults): string {
  const rows = sides.map(({ command, side, ms, cpuMs, peakMiB }) => {
    const baseline = sides.find((other) => other.command === command && other.side === 'kubectl get');
    return [
      side === 'kubectl get' ? `${side}, for ${command}` : `${side} ${command}`,
      `${ms.min} / ${ms.median} / ${ms.p95}`,
      (ms.median / (baseline?.ms.median ?? Number.NaN)).toFixed(2),
      String(cpuMs.median),
      String(Math.round(peakMiB)),
    ];
  });
  const header = ['command', 'ms, min / median / p95', 'of kubectl get', 'CPU ms, median', 'peak RSS, MiB'];
  return [`With ${volumes} volumes on ${nodes} nodes:`, table([header, ...rows])].join('\n');
}

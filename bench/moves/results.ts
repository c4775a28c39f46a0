import type { Statistics } from '../statistics.ts';
import { table } from '../table.ts';
import type { Cost, MovesResults } from './moves-bench.ts';

/** The results as tables, and as bars. */
export function movesTables({ throughput, costs, pauses }: MovesResults): string {
  const { mibPerSecond, cpuSecondsPerGib } = throughput;
  const words = ({ min, median, p95, samples }: Statistics) => `${min} / ${median} / ${p95} (${samples})`;
  const kinds = [...new Set(costs.map(({ kind }) => kind))];
  return [
    'Throughput: min / median / p95 (samples).',
    table([
      ['', 'moorage', 'socat with TLS and sha256sum'],
      ['MiB/s', words(mibPerSecond.moorage), words(mibPerSecond.socat)],
      ['CPU seconds per GiB, both ends', words(cpuSecondsPerGib.moorage), words(cpuSecondsPerGib.socat)],
    ]),
    `moorage / socat: ${throughput.ratio}`,
    'Rounds: milliseconds, from the request until everything is on the disk of the target.',
    table([
      ['volume', 'size, MiB', 'changed, MiB', 'sent, MiB', 'ms'],
      ...costs.map(({ kind, sizeMib, changedMib, sentMib, ms }) => [
        ...[kind, String(sizeMib), changedMib === undefined ? 'first round' : String(changedMib)],
        ...[sentMib.toFixed(1), String(ms)],
      ]),
    ]),
    ...kinds.map((kind) => bars(kind, costs)),
    'Pause: milliseconds, from the closed source until the target could be published.',
    table([
      ['volume', 'changed, MiB', 'pause', 'of it the last round', 'socat, same amount', 'pause / socat'],
      ...pauses.map(({ kind, changedMib, ms, lastRoundMs, socatMs }) => [
        ...[kind, String(changedMib), String(ms), String(lastRoundMs), String(socatMs), (ms / socatMs).toFixed(2)],
      ]),
    ]),
  ].join('\n\n');
}

const widest = 60;

/** What a round costs, by what has changed and by the size of the volume. */
function bars(kind: string, costs: readonly Cost[]): string {
  const rounds = costs.filter((cost) => cost.kind === kind && cost.changedMib !== undefined);
  const most = Math.max(...rounds.map(({ ms }) => ms));
  const lines = rounds
    .toSorted((one, other) => one.sizeMib - other.sizeMib || (one.changedMib ?? 0) - (other.changedMib ?? 0))
    .map(({ sizeMib, changedMib, ms }) => [
      ...[`${sizeMib} MiB`, `${changedMib} MiB changed`],
      `${'#'.repeat(Math.max(1, Math.round((widest * ms) / most)))} ${ms} ms`,
    ]);
  return `${kind}:\n${table(lines)}`;
}

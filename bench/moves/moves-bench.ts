import { join } from 'node:path';
import { ensurePackages } from '../../worlds/host/packages.ts';
import { stage } from '../../worlds/host/progress.ts';
import { startMachine } from '../../worlds/lvm/machine-world.ts';
import { quote } from '../../worlds/machine/quote.ts';
import type { Statistics } from '../statistics.ts';
import { table } from '../table.ts';
import { measureThroughput, type Throughput } from './throughput.ts';

const home = join(import.meta.dirname, '..', '..');
const timeoutMs = 15 * 60_000;

/** What one round of a volume costs. */
export interface Cost {
  readonly kind: string;
  readonly sizeMib: number;
  /** Since the last round; undefined for the first one. */
  readonly changedMib: number | undefined;
  readonly sentMib: number;
  readonly ms: number;
}

export interface MovesResults {
  readonly throughput: Throughput;
  readonly costs: readonly Cost[];
}

/** How fast data moves, compared with socat, and what a round costs. */
export async function measureMoves(): Promise<MovesResults> {
  await stage('Debian packages', (say) => ensurePackages(['socat', 'openssl'], say));
  const throughput = await stage('Throughput', measureThroughput);
  return { throughput, costs: await measureCosts() };
}

async function measureCosts(): Promise<readonly Cost[]> {
  const { machine, close } = await stage('LVM machine', startMachine);
  try {
    return await stage('Rounds', async (say) => {
      const words = [process.execPath, 'bench/moves/inside.ts'];
      const { stdout, stderr, exitCode } = await machine.sh(`cd ${quote(home)} && exec ${words.map(quote).join(' ')}`, {
        timeoutMs,
        onStderr: (piece) => say(piece.toString().trim().split('\n').at(-1) ?? ''),
      });
      if (exitCode !== 0) throw new Error(`the benchmark failed with exit code ${exitCode}:\n${stderr}`);
      return JSON.parse(stdout) as Cost[];
    });
  } finally {
    await close();
  }
}

export function movesTables({ throughput, costs }: MovesResults): string {
  const { mibPerSecond, cpuSecondsPerGib } = throughput;
  const words = ({ min, median, p95, samples }: Statistics) => `${min} / ${median} / ${p95} (${samples})`;
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
  ].join('\n\n');
}

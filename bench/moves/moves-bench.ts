import { join } from 'node:path';
import { ensurePackages } from '../../worlds/host/packages.ts';
import { stage } from '../../worlds/host/progress.ts';
import { startMachine } from '../../worlds/lvm/machine-world.ts';
import { quote } from '../../worlds/machine/quote.ts';
import { measureThroughput, type Throughput } from './throughput.ts';

const home = join(import.meta.dirname, '..', '..');
const timeoutMs = 20 * 60_000;

/** What one round of a volume costs. */
export interface Cost {
  readonly kind: string;
  readonly sizeMib: number;
  /** Since the last round; undefined for the first one. */
  readonly changedMib: number | undefined;
  readonly sentMib: number;
  readonly ms: number;
}

/** The end of a move: how long no pod can use the volume because of the mover. */
export interface Pause {
  readonly kind: string;
  readonly changedMib: number;
  /** From the closed source until the target could be published: read-only, the last round, and opened. */
  readonly ms: number;
  readonly lastRoundMs: number;
  /** To copy the same amount with socat, from the same disk to the same disk. */
  readonly socatMs: number;
}

/** What is measured on real LVM. */
export interface LvmResults {
  readonly costs: readonly Cost[];
  readonly pauses: readonly Pause[];
}

export interface MovesResults extends LvmResults {
  readonly throughput: Throughput;
}

/** How fast data moves, compared with socat, what a round costs, and how long the pause at the end is. */
export async function measureMoves(): Promise<MovesResults> {
  await stage('Debian packages', (say) => ensurePackages(['socat', 'openssl'], say));
  const throughput = await stage('Throughput', measureThroughput);
  return { throughput, ...(await measureOnLvm()) };
}

async function measureOnLvm(): Promise<LvmResults> {
  const { machine, close } = await stage('LVM machine', startMachine);
  try {
    return await stage('Rounds', async (say) => {
      const words = [process.execPath, 'bench/moves/inside.ts'];
      const { stdout, stderr, exitCode } = await machine.sh(`cd ${quote(home)} && exec ${words.map(quote).join(' ')}`, {
        timeoutMs,
        onStderr: (piece) => say(piece.toString().trim().split('\n').at(-1) ?? ''),
      });
      if (exitCode !== 0) throw new Error(`the benchmark failed with exit code ${exitCode}:\n${stderr}`);
      return JSON.parse(stdout) as LvmResults;
    });
  } finally {
    await close();
  }
}

import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from '../../worlds/host/processes.ts';
import { stage } from '../../worlds/host/progress.ts';
import { startMachine } from '../../worlds/lvm/machine-world.ts';
import { quote } from '../../worlds/machine/quote.ts';
import { ensureTopolvm } from '../topolvm/topolvm.ts';
import type { Measurements } from './measurements.ts';
import type { Memory } from './memory.ts';

const home = join(import.meta.dirname, '..', '..');
/** After this time each kind of turn runs only once, so that the benchmark ends within ten minutes even on a busy machine. */
const budgetSeconds = 5 * 60;
const timeoutMs = 15 * 60_000;

export interface EngineResults {
  readonly ratios: Readonly<Record<string, number>>;
  readonly figures: Measurements;
  readonly memory: Memory;
}

/** Compares the storage engine with LVM's own commands and TopoLVM's lvmd, in one machine with real LVM. */
export async function measureEngine(): Promise<EngineResults> {
  const topolvm = await ensureTopolvm();
  await stage('Moorage', () => run([process.execPath, join(home, 'scripts', 'build.ts')], { timeoutMs, cwd: home }));
  const { machine, close } = await stage('LVM machine', startMachine);
  try {
    for (const file of ['moorage', 'moorage.mjs', 'parts'])
      await cp(join(home, 'dist', file), join(machine.dir, file), { recursive: true });
    const moorage = join(machine.dir, 'moorage');
    const words = [process.execPath, 'bench/engine/inside.ts', '/run', String(budgetSeconds), moorage, topolvm.lvmd];
    return await stage('Measuring', async (say) => {
      const { stdout, stderr, exitCode } = await machine.sh(`cd ${quote(home)} && exec ${words.map(quote).join(' ')}`, {
        timeoutMs,
        onStderr: (piece) => say(piece.toString().trim().split('\n').at(-1) ?? ''),
      });
      if (exitCode !== 0) throw new Error(`the benchmark failed with exit code ${exitCode}:\n${stderr}`);
      return JSON.parse(stdout) as EngineResults;
    });
  } finally {
    await close();
  }
}

// npm run test:moves [-- WORD...]: kills everything in every phase of a move, and writes docs/moving-faults.md. With words,
// only the cases whose name contains one of them: copying, freezing-target-agent, api-server, …
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { messageOf } from '../src/base/errors.ts';
import { CheckedSet } from '../test/cluster/checked-set.ts';
import { allCases, type MoveCase, nameOf, type VolumeKind } from '../test/cluster/moves/move-cases.ts';
import { classOf, MoveLab } from '../test/cluster/moves/move-lab.ts';
import { Cluster } from '../worlds/cluster/cluster.ts';
import { Moorage } from '../worlds/cluster/moorage.ts';
import { duration, stage } from '../worlds/host/progress.ts';
import { type CaseResult, withResults } from './fault-table.ts';

const page = join(import.meta.dirname, '..', 'docs', 'moving-faults.md');

const words = process.argv.slice(2).map((word) => word.toLowerCase());
const cases = allCases().filter((one) => words.length === 0 || words.some((word) => nameOf(one).includes(word)));
if (cases.length === 0) {
  console.error(`npm run test:moves: no case is named so; the cases are\n${allCases().map(nameOf).join('\n')}`);
  process.exit(2);
}

const started = performance.now();
const cluster = await Cluster.start({ nodes: 3 });
let reds = 0;
try {
  const moorage = await stage('Moorage', (say) => Moorage.install(cluster, { say }));
  const lab = await MoveLab.create(cluster, moorage);
  const sets = new Map<VolumeKind, CheckedSet>();
  for (const [index, one] of cases.entries()) {
    const result = await run(lab, sets, one);
    await writeFile(page, withResults(await readFile(page, 'utf8'), [[one, result]]));
    if ('red' in result) reds += 1;
    const shown = 'red' in result ? `✗ ${result.red}` : `✓ ${result.end}, the pod paused for ${result.pauseSeconds} s`;
    console.log(`${index + 1}/${cases.length} ${nameOf(one)} (${one.volume}): ${shown}`);
  }
} finally {
  await cluster.stop();
}
console.log(`${cases.length - reds} of ${cases.length} cases passed in ${duration(performance.now() - started)}`);
process.exit(reds === 0 ? 0 : 1);

async function run(lab: MoveLab, sets: Map<VolumeKind, CheckedSet>, one: MoveCase): Promise<CaseResult> {
  const { volume } = one;
  let pod = sets.get(volume);
  try {
    pod ??= await CheckedSet.create(cluster, `${volume}-${nameOf(one)}`, { storageClass: classOf[volume] });
    sets.set(volume, pod);
    return { volume, ...(await lab.run(one, pod)) };
  } catch (error) {
    sets.delete(volume); // the next case of this kind gets another pod
    if (pod) await lab.giveUp(one, pod);
    return { volume, red: messageOf(error) };
  }
}

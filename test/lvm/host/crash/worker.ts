/**
 * node worker.ts CONFIG ROUND [ACKNOWLEDGED...]: in the machine, after each boot.
 *
 * Opens the engine, checks and removes what the previous round left, then runs its own round. Standard output is all that
 * the host knows: `verified`, `begin`, and `ack ID` for each volume.
 */
import { messageOf } from '../../../../src/base/errors.ts';
import { openEngine } from '../../engine-model/open-engine.ts';
import { operations } from './operations.ts';
import { rounds, volumesOf } from './plan.ts';

const [config = '', roundNumber = '', ...acknowledged] = process.argv.slice(2);
const number = Number(roundNumber);
const pools = await openEngine(config);

const before = rounds[number - 1];
if (before) {
  for (const id of volumesOf(number - 1, before)) {
    try {
      await operations[before.operation].verify(pools.get(before.pool), id, acknowledged.includes(id));
    } catch (error) {
      throw new Error(`${id} (acknowledged: ${acknowledged.join(' ') || 'none'}): ${messageOf(error)}`, {
        cause: error,
      });
    }
  }
}
console.log('verified');

const round = rounds[number];
if (round) {
  const pool = pools.get(round.pool);
  const promised = operations[round.operation];
  const ids = volumesOf(number, round);
  for (const id of ids) await promised.prepare(pool, id);
  console.log('begin');
  for (const id of ids) {
    await promised.act(pool, id);
    console.log(`ack ${id}`);
  }
}
process.exit();

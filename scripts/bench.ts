// npm run bench -- engine [--json]: how fast the storage engine is, beside LVM's own commands and TopoLVM's lvmd.
import { parseArgs } from 'node:util';
import { measureEngine } from '../bench/engine/engine-bench.ts';
import { engineTables } from '../bench/engine/tables.ts';
import { messageOf } from '../src/base/errors.ts';

const usage = `npm run bench -- engine          measure the storage engine
npm run bench -- engine --json   the same, with one JSON object as the last line`;

try {
  const { values, positionals } = parseArgs({ options: { json: { type: 'boolean' } }, allowPositionals: true });
  if (positionals.length !== 1 || positionals[0] !== 'engine') throw new Error(`say what to measure:\n${usage}`);
  const results = await measureEngine();
  console.log(engineTables(results));
  if (values.json) console.log(JSON.stringify(results));
} catch (error) {
  console.error(`npm run bench: ${messageOf(error)}`);
  process.exitCode = 1;
}

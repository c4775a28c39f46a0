// npm run bench -- engine|provision|install|capacity|plugin|moves|evictions|page [--json]: compares Moorage with what people use today.
import { parseArgs } from 'node:util';
import { measureCapacity } from '../bench/capacity/capacity-bench.ts';
import { capacityTables } from '../bench/capacity/results.ts';
import { measureEngine } from '../bench/engine/engine-bench.ts';
import { engineTables } from '../bench/engine/tables.ts';
import { evictionsTables, measureEvictions } from '../bench/evictions/evictions-bench.ts';
import { measureInstallation } from '../bench/install/install-bench.ts';
import { installTables } from '../bench/install/results.ts';
import { measureMoves } from '../bench/moves/moves-bench.ts';
import { movesTables } from '../bench/moves/results.ts';
import { measurePage, pageTables } from '../bench/page/page-bench.ts';
import { measurePlugin } from '../bench/plugin/plugin-bench.ts';
import { pluginTables } from '../bench/plugin/results.ts';
import { measureProvisioning } from '../bench/provision/provision-bench.ts';
import { provisionTables } from '../bench/provision/results.ts';
import { messageOf } from '../src/base/errors.ts';

const usage = `npm run bench -- engine      measure the storage engine
npm run bench -- provision   measure CSI calls, from the controller to the mounted volume
npm run bench -- install     measure the memory of the chart's pods, and the restart time of an agent
npm run bench -- capacity    measure how fast free capacity reaches the scheduler, with 3 and 1,000 nodes
npm run bench -- plugin      measure kubectl moorage and kubectl get with 20,000 volumes
npm run bench -- page        measure the page of kubectl moorage ui in Chromium, with 20,000 volumes on 1,000 nodes
npm run bench -- moves       measure how fast volumes are copied between nodes, and what a round of a move costs
npm run bench -- evictions   measure how fast the eviction webhook answers, with 10,000 pods
--json                       in addition, one JSON object as the last line`;

async function measure(what: string | undefined): Promise<{ readonly tables: string; readonly results: object }> {
  if (what === 'engine') {
    const results = await measureEngine();
    return { tables: engineTables(results), results };
  }
  if (what === 'provision') {
    const results = await measureProvisioning();
    return { tables: provisionTables(results), results };
  }
  if (what === 'install') {
    const results = await measureInstallation();
    return { tables: installTables(results), results };
  }
  if (what === 'capacity') {
    const results = await measureCapacity();
    return { tables: capacityTables(results), results };
  }
  if (what === 'plugin') {
    const results = await measurePlugin();
    return { tables: pluginTables(results), results };
  }
  if (what === 'moves') {
    const results = await measureMoves();
    return { tables: movesTables(results), results };
  }
  if (what === 'evictions') {
    const results = await measureEvictions();
    return { tables: evictionsTables(results), results };
  }
  if (what === 'page') {
    const results = await measurePage();
    return { tables: pageTables(results), results };
  }
  throw new Error(`missing or unknown benchmark; use one of:\n${usage}`);
}

try {
  const { values, positionals } = parseArgs({ options: { json: { type: 'boolean' } }, allowPositionals: true });
  const { tables, results } = await measure(positionals.length === 1 ? positionals[0] : undefined);
  console.log(tables);
  if (values.json) console.log(JSON.stringify(results));
} catch (error) {
  console.error(`npm run bench: ${messageOf(error)}`);
  process.exitCode = 1;
}

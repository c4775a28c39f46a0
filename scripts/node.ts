// npm run node -- shell|kill|boot NODE [SCRIPT]: acts on a node of the running cluster.
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { messageOf } from '../src/base/errors.ts';
import { Machine } from '../worlds/machine/machine.ts';
import { clusterDir } from './cluster-dir.ts';

const usage = `npm run node -- shell NODE 'SCRIPT'   run SCRIPT on the node as root
npm run node -- kill NODE             cut its power
npm run node -- boot NODE             start it again, with the same disks`;

const [action, name = '', script = ''] = process.argv.slice(2);
const nodes = join(clusterDir, 'nodes');
if (!existsSync(nodes)) end('there is no cluster; start one with: npm run up');
if (!existsSync(join(nodes, name)) || name === '') end(`${usage}\nNODE is one of: ${readdirSync(nodes).join(', ')}`);
const machine = await Machine.attach(join(nodes, name));

try {
  if (action === 'shell' && script !== '') {
    const result = await machine.sh(script);
    process.stdout.write(result.stdout);
    process.stderr.write(result.stderr);
    process.exitCode = result.exitCode;
  } else if (action === 'kill') await machine.powerLoss();
  else if (action === 'boot') await machine.start();
  else end(usage);
} catch (error) {
  end(messageOf(error));
}

function end(message: string): never {
  console.error(message);
  process.exit(2);
}

// npm run test:why: the reasons of kubectl moorage why that need a kubelet, each produced on a real cluster.
import { join } from 'node:path';
import { ensureHelm } from '../worlds/cluster/binaries.ts';
import { ensureClusterParts } from '../worlds/cluster/cluster.ts';
import { testEnvironment } from '../worlds/host/environment.ts';
import { spawnSync } from '../worlds/host/processes.ts';

process.chdir(join(import.meta.dirname, '..'));
await ensureClusterParts(); // now, because it shows its progress
await ensureHelm();
const tests = ['--test', '--test-reporter=spec', 'test/cluster/why/*.test.ts'];
process.exitCode = spawnSync(process.execPath, tests, { stdio: 'inherit', env: testEnvironment() }).status ?? 1;

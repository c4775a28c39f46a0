// npm run manifests: renders the plain manifests and the list of values from the chart.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { plainManifests } from './manifests/plain-manifests.ts';
import { valuesReference } from './manifests/values-reference.ts';

const home = join(import.meta.dirname, '..');
for (const [file, text] of await plainManifests()) await writeFile(join(home, 'deploy', file), text);
await writeFile(join(home, 'docs', 'values.md'), await valuesReference());

// npm run manifests: what follows from the chart: plain manifests for those who do not use Helm, and the list of its values.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { plainManifests } from './manifests/plain-manifests.ts';
import { valuesReference } from './manifests/values-reference.ts';

const home = join(import.meta.dirname, '..');
for (const [file, text] of await plainManifests()) await writeFile(join(home, 'deploy', file), text);
await writeFile(join(home, 'docs', 'values.md'), await valuesReference());

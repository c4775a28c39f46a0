// npm run manifests: the plain manifests in deploy/, rendered from the chart for those who do not use Helm.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { plainManifests } from './manifests/plain-manifests.ts';

const deploy = join(import.meta.dirname, '..', 'deploy');
for (const [file, text] of await plainManifests()) await writeFile(join(deploy, file), text);

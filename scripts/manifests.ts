// npm run manifests: writes CRDs and dashboard into the chart, then renders the plain manifests and the list of values from it.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { crdTemplate, crdTemplatePath } from './manifests/crd-template.ts';
import { dashboard, dashboardPath } from './manifests/dashboard.ts';
import { plainManifests } from './manifests/plain-manifests.ts';
import { valuesReference } from './manifests/values-reference.ts';

const home = join(import.meta.dirname, '..');
await writeFile(crdTemplatePath, crdTemplate());
await writeFile(dashboardPath, dashboard());
for (const [file, text] of await plainManifests()) await writeFile(join(home, 'deploy', file), text);
await writeFile(join(home, 'docs', 'values.md'), await valuesReference());

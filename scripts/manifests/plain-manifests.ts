import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ensureHelm } from '../../worlds/cluster/binaries.ts';
import { execute } from '../../worlds/host/processes.ts';

const deploy = join(import.meta.dirname, '..', '..', 'deploy');

/** The template and the values of each file. */
const parts: Readonly<Record<string, { readonly template: string; readonly values?: readonly string[] }>> = {
  'crd.yaml': { template: 'crd.yaml' },
  'rbac.yaml': { template: 'rbac.yaml', values: ['snapshot.enabled=true'] },
  'node-policy.yaml': { template: 'node/admission-policy.yaml' },
  'controller-policy.yaml': { template: 'controller/admission-policy.yaml' },
  'logicalvolume-policy.yaml': { template: 'logicalvolume-policy.yaml' },
  'volumemove-policy.yaml': { template: 'volumemove-policy.yaml' },
  'storageclass-policy.yaml': { template: 'storageclass-policy.yaml' },
  'csidriver.yaml': { template: 'csidriver.yaml' },
  'storageclass.yaml': { template: 'storageclasses.yaml' },
  'snapshotclass.yaml': { template: 'snapshotclass.yaml', values: ['snapshot.enabled=true'] },
  'webhook.yaml': { template: 'controller/webhook.yaml', values: ['webhook.podMutatingWebhook.enabled=true'] },
};

/** The manifests by file name, below deploy: everything for a cluster in one file, and its parts. */
export async function plainManifests(): Promise<ReadonlyMap<string, string>> {
  const namespace = await readFile(join(deploy, 'namespace.yaml'), 'utf8');
  const files = new Map([['moorage.yaml', `${header}${namespace}${await render('--no-hooks')}`]]);
  for (const [file, { template, values = [] }] of Object.entries(parts)) {
    const set = values.flatMap((value) => ['--set', value]);
    files.set(file, `${header}${await render('--show-only', `templates/${template}`, ...set)}`);
  }
  return files;
}

const header = '# Rendered from deploy/helm/moorage by `npm run manifests`: change it there.\n';

async function render(...words: readonly string[]): Promise<string> {
  const chart = join(deploy, 'helm', 'moorage');
  const { stdout } = await execute(await ensureHelm(), [
    ...['template', 'moorage', chart, '--namespace', 'moorage-system'],
    ...words,
  ]);
  return stdout
    .replaceAll(/^# Source: .*\n/gm, '')
    .replaceAll(/^ *(app\.kubernetes\.io\/managed-by: Helm|helm\.sh\/chart: .*)\n/gm, '') // Helm does not manage them
    .replaceAll(/\n{2,}/g, '\n');
}

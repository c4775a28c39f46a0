import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseAllDocuments, stringify } from 'yaml';
import { validatingWebhookConfigurations } from '../../src/kube/resource.ts';
import type { Component } from '../../worlds/cluster/component.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { type ApiServer, startController } from './api-server.ts';

const deploy = join(import.meta.dirname, '..', '..', 'deploy');
const port = 9443;

interface Manifest {
  readonly kind: string;
  readonly webhooks?: { clientConfig: { service?: { path: string }; url?: string } }[];
}

/** The controller with its eviction webhook as it is deployed, with its rights and policies, in front of a real API server. */
export async function startEvictionWebhook({
  cluster,
  admin,
}: Pick<ApiServer, 'cluster' | 'admin'>): Promise<Component> {
  const files = ['namespace', 'crd', 'rbac', 'controller-policy'].map((name) => join(deploy, `${name}.yaml`));
  const all = parseAllDocuments(await readFile(join(deploy, 'webhook.yaml'), 'utf8')).map(
    (document) => document.toJS() as Manifest,
  );
  const objects = all.filter(({ kind }) => kind !== 'MutatingWebhookConfiguration');
  // The controller shares a network namespace with the API server, which reaches it by this name.
  for (const { webhooks = [] } of objects) {
    for (const webhook of webhooks) {
      webhook.clientConfig = { url: `https://localhost:${port}${webhook.clientConfig.service?.path}` };
    }
  }
  const file = join(cluster.dir, 'eviction-webhook.yaml');
  await writeFile(file, objects.map((object) => stringify(object)).join('---\n'));
  await cluster.kubectl('apply', ...[...files, file].map((each) => `-f${each}`));
  const controller = await startController(
    cluster,
    '--enable-webhooks',
    '--eviction-webhook',
    `--webhook-addr=127.0.0.1:${port}`,
    '--webhook-service=localhost',
  );
  await eventually(
    'the API server trusts the webhook',
    async () => {
      const found = await admin.get(validatingWebhookConfigurations, 'moorage');
      return found?.webhooks?.every(({ clientConfig }) => clientConfig.caBundle !== undefined);
    },
    { explain: async () => controller.tail() },
  );
  return controller;
}

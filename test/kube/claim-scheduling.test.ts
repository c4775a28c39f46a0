import assert from 'node:assert/strict';
import { test } from 'node:test';
import { selectedNodeAnnotation } from '../../src/api/names.ts';
import { ClaimScheduling } from '../../src/controller/volumes/claim-scheduling.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { persistentVolumeClaims } from '../../src/kube/resource.ts';
import { newNamespace, startApiServer } from './api-server.ts';

const api = await startApiServer();
const { admin } = api;
const signal = new AbortController().signal;
const namespace = await newNamespace(api, 'shop');

test('a claim with a selected node is moved to another node', async () => {
  await claim('chosen', 'node-b');
  await new ClaimScheduling(admin).chooseNode('shop/chosen', 'node-a', signal);
  assert.equal(await nodeOf('chosen'), 'node-a');
});

test('a claim without a selected node stays as it is, and a deleted one is ignored', async () => {
  await claim('immediate');
  await new ClaimScheduling(admin).chooseNode('shop/immediate', 'node-a', signal);
  assert.equal(await nodeOf('immediate'), undefined);
  await new ClaimScheduling(admin).chooseNode('shop/gone', 'node-a', signal);
});

test('a selected node that was set or removed meanwhile is kept', async () => {
  await claim('contested', 'node-b');
  const afterReading = async (change: string | null) => {
    const client: Pick<KubeClient, 'get' | 'patch'> = {
      get: async (...request) => {
        const read = await admin.get(...request);
        await choose('contested', change);
        return read;
      },
      patch: (...request) => admin.patch(...request),
    };
    await new ClaimScheduling(client).chooseNode('shop/contested', 'node-a', signal);
    return nodeOf('contested');
  };
  assert.equal(await afterReading('node-c'), 'node-c');
  assert.equal(await afterReading(null), undefined);
});

async function claim(name: string, node?: string): Promise<void> {
  await admin.create(persistentVolumeClaims, {
    metadata: { name, namespace, ...(node && { annotations: { [selectedNodeAnnotation]: node } }) },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
  });
}

async function choose(name: string, node: string | null): Promise<void> {
  const body = { metadata: { annotations: { [selectedNodeAnnotation]: node } } };
  await admin.patch(persistentVolumeClaims, name, { type: 'merge', body }, { namespace });
}

async function nodeOf(name: string): Promise<string | undefined> {
  const found = await admin.get(persistentVolumeClaims, name, { namespace });
  return found?.metadata.annotations?.[selectedNodeAnnotation];
}

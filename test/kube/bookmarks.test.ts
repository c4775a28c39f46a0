import assert from 'node:assert/strict';
import { test } from 'node:test';
import { configMaps } from '../../src/kube/resource.ts';
import { newNamespace, startApiServer } from './api-server.ts';

const api = await startApiServer();
const { admin } = api;

// Takes a minute, because that is how often the API server sends bookmarks; nothing else can verify that it does.
test('a quiet watch gets a bookmark before it counts as dead, and resumes after changes of other objects', async () => {
  const namespace = await newNamespace(api, 'quiet');
  const { resourceVersion } = (await admin.create(configMaps, { metadata: { name: 'x', namespace } })).metadata;
  const foreign = await admin.create(configMaps, { metadata: { name: 'y', namespace: 'default' } });
  const mine = { namespace, fieldSelector: 'metadata.name=x' };

  // A watch that stays silent for too long throws.
  const bookmark = await first(admin.watch(configMaps, { ...mine, resourceVersion }));
  assert.ok(bookmark?.type === 'BOOKMARK');
  assert.ok(BigInt(bookmark.resourceVersion) >= BigInt(foreign.metadata.resourceVersion));

  await admin.delete(configMaps, 'x', { namespace });
  const next = await first(admin.watch(configMaps, { ...mine, resourceVersion: bookmark.resourceVersion }));
  assert.equal(next?.type, 'DELETED');
});

async function first<T>(events: AsyncIterable<T>): Promise<T | undefined> {
  for await (const event of events) return event;
  return undefined;
}

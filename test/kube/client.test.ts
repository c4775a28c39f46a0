import assert from 'node:assert/strict';
import { test } from 'node:test';
import { codeOf } from '../../src/base/errors.ts';
import { isAlreadyExists, isConflict } from '../../src/kube/api-error.ts';
import { configMaps, nodes } from '../../src/kube/resource.ts';
import { newNamespace, startApiServer } from './api-server.ts';

const api = await startApiServer();
const { admin } = api;

test('for a missing object, get returns undefined, delete returns false, and patch throws NotFound', async () => {
  const namespace = await newNamespace(api, 'absent');
  assert.equal(await admin.get(configMaps, 'x', { namespace }), undefined);
  assert.equal(await admin.delete(configMaps, 'x', { namespace }), false);
  await assert.rejects(admin.patch(configMaps, 'x', { type: 'merge', body: {} }, { namespace }), { code: 'NotFound' });
});

test('a second object of the same name is rejected', async () => {
  const metadata = { name: 'x', namespace: await newNamespace(api, 'twice') };
  const created = await admin.create(configMaps, { metadata });
  assert.deepEqual((await admin.get(configMaps, 'x', metadata))?.metadata.uid, created.metadata.uid);
  await assert.rejects(admin.create(configMaps, { metadata }), isAlreadyExists);
});

test('a merge patch with a resourceVersion is a compare-and-swap', async () => {
  const namespace = await newNamespace(api, 'swap');
  const first = await admin.create(configMaps, { metadata: { name: 'x', namespace } });
  const { resourceVersion } = first.metadata;
  const swap = (value: string) =>
    admin.patch(
      configMaps,
      'x',
      { type: 'merge', body: { metadata: { resourceVersion }, data: { value } } },
      { namespace },
    );
  assert.equal((await swap('1')).data?.value, '1');
  await assert.rejects(swap('2'), isConflict);
});

test('a JSON patch whose test fails changes nothing', async () => {
  const namespace = await newNamespace(api, 'json-patch');
  await admin.create(configMaps, { metadata: { name: 'x', namespace }, data: { value: '1' } });
  const change = (from: string, to: string) =>
    admin.patch(
      configMaps,
      'x',
      {
        type: 'json',
        body: [
          { op: 'test', path: '/data/value', value: from },
          { op: 'replace', path: '/data/value', value: to },
        ],
      },
      { namespace },
    );
  await assert.rejects(change('0', '3'), { code: 'InvalidArgument' });
  assert.equal((await change('1', '2')).data?.value, '2');
});

test('server-side apply: the field of another manager is a conflict, unless forced', async () => {
  const namespace = await newNamespace(api, 'apply');
  const apply = (fieldManager: string, value: string, force = false) =>
    admin.patch(configMaps, 'x', { type: 'apply', fieldManager, force, body: { data: { value } } }, { namespace });
  await apply('one', '1');
  await assert.rejects(apply('other', '2'), isConflict);
  assert.equal((await admin.get(configMaps, 'x', { namespace }))?.data?.value, '1');
  assert.equal((await apply('other', '2', true)).data?.value, '2');
});

test('the status subresource changes the status and nothing else', async () => {
  await admin.create(nodes, { metadata: { name: 'machine' } });
  const body = {
    metadata: { labels: { unwanted: 'true' } },
    status: { nodeInfo: { bootID: 'first' } },
    spec: { unschedulable: true },
  };
  const patched = await admin.patch(nodes, 'machine', { type: 'merge', body }, { subresource: 'status' });
  assert.equal(patched.status?.nodeInfo?.bootID, 'first');
  assert.equal(patched.spec?.unschedulable, undefined);
});

test('a delete with preconditions keeps a newer object of the same name', async () => {
  const metadata = { name: 'x', namespace: await newNamespace(api, 'successor') };
  const { uid } = (await admin.create(configMaps, { metadata })).metadata;
  const options = { namespace: metadata.namespace, preconditions: { uid } };
  assert.equal(await admin.delete(configMaps, 'x', options), true);
  await admin.create(configMaps, { metadata });
  await assert.rejects(admin.delete(configMaps, 'x', options), isConflict);
  assert.ok(await admin.get(configMaps, 'x', metadata));
});

test('a list is filtered by labels and fields', async () => {
  const namespace = await newNamespace(api, 'selectors');
  for (const name of ['x', 'y', 'z']) {
    await admin.create(configMaps, { metadata: { name, namespace, labels: { odd: String(name !== 'y') } } });
  }
  const names = async (selection: object) =>
    (await admin.list(configMaps, { namespace, ...selection, project: (object) => object.metadata.name })).items;
  assert.deepEqual(await names({ labelSelector: 'odd=true' }), ['x', 'z']);
  assert.deepEqual(await names({ fieldSelector: 'metadata.name=y' }), ['y']);
  assert.deepEqual(await names({ labelSelector: 'odd in (true),odd!=false', fieldSelector: 'metadata.name=z' }), ['z']);
});

test('paging returns every object exactly once', async () => {
  const names = await createMany('paging');
  const { items } = await admin.list(configMaps, { ...mine('paging'), pageSize: 10 });
  assert.deepEqual(
    items.map((item) => item.metadata.name),
    names,
  );
});

test('multi-byte characters are preserved', async () => {
  const namespace = await newNamespace(api, 'characters');
  const { resourceVersion } = await admin.list(configMaps, { namespace });
  const value = 'Größe ≥ 10 GiB 𝄞\n'.repeat(20_000);
  await admin.create(configMaps, { metadata: { name: 'x', namespace }, data: { value } });
  assert.equal((await admin.get(configMaps, 'x', { namespace }))?.data?.value, value);
  const watch = admin.watch(configMaps, { namespace, resourceVersion, fieldSelector: 'metadata.name=x' });
  for await (const event of watch) {
    assert.ok(event.type === 'ADDED' && event.object.data?.value === value);
    break;
  }
});

test("an aborted request fails with the caller's reason", async () => {
  const reason = new Error('changed my mind');
  const failure = await admin.list(configMaps, { signal: AbortSignal.abort(reason) }).catch((error: unknown) => error);
  assert.equal(failure, reason);
  const aborted = await admin.list(configMaps, { signal: AbortSignal.abort() }).catch(codeOf);
  assert.equal(aborted, 'Cancelled');
});

const mine = (namespace: string) => ({ namespace, fieldSelector: 'metadata.name!=kube-root-ca.crt' });

/** Creates twenty-five ConfigMaps in a new namespace; returns their names in order. */
async function createMany(name: string): Promise<string[]> {
  const namespace = await newNamespace(api, name);
  const names = Array.from({ length: 25 }, (_, index) => `object-${String(index).padStart(2, '0')}`);
  await Promise.all(names.map((name) => admin.create(configMaps, { metadata: { name, namespace } })));
  return names;
}

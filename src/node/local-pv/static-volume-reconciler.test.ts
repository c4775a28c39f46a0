import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InvalidInput } from '../../base/errors.ts';
import { PoolFull } from '../../engine/errors.ts';
import { persistentVolumes } from '../../kube/resource.ts';
import { noDefaults, parseDefaults } from '../../local-pv/defaults.ts';
import { settled } from '../testing/reconciling-node.ts';
import { UsedByPod } from './shown-volumes.ts';
import { handedOver, messageIn, never, staticNode } from './testing/static-node.ts';

const prefix = 'local-pv.k8s.portavita.net/';
const mebibyte = 1024n ** 2n;
const tags = (uid: string) => ['moorage.dev/local-pv=db', `moorage.dev/local-pv-uid=${uid}`];
const patches = (calls: readonly string[]) => calls.filter((call) => call.startsWith('patch')).length;

test('a volume is created and mounted, and one PATCH answers with what it got', async (t) => {
  const { create, processed, pool, paths, api, groups } = staticNode(t);
  const { metadata } = await create(handedOver({ annotations: { [`${prefix}fsOpts`]: '-i 8192' } }));
  const pv = await processed();
  assert.deepEqual(pv?.metadata.annotations, {
    [`${prefix}node`]: 'a',
    [`${prefix}vg`]: 'vg-ssd',
    [`${prefix}fsType`]: 'ext4',
    [`${prefix}fsOpts`]: '-i 8192',
    [`${prefix}mountOpts`]: 'noexec',
    [`${prefix}cryptSecret`]: '',
    [`${prefix}size`]: '64Mi',
    [`${prefix}mountPoint`]: '/mnt/pv/db',
    [`${prefix}status`]: 'Processed',
    'moorage.dev/processed': 'true',
  });
  assert.deepEqual(pool.get('db')?.tags.slice(0, 2), tags(metadata.uid));
  await settled();
  assert.equal(patches(api.calls), 1);
  assert.ok(paths.shown.has('db'));
  assert.deepEqual(groups.at(-1), ['vg-ssd']);
});

test('a PersistentVolume that was not handed over is left alone', async (t) => {
  const { create, pool, api } = staticNode(t);
  const { metadata, ...rest } = handedOver();
  await create({ ...rest, metadata: { ...metadata, finalizers: [] } });
  await settled();
  assert.deepEqual([pool.list(), patches(api.calls)], [[], 0]);
});

test('a raised capacity grows the volume and its filesystem', async (t) => {
  const { create, processed, change, until, paths } = staticNode(t);
  await create();
  await processed();
  await change({ spec: { capacity: { storage: '100Mi' } } });
  await until((annotations) => annotations[`${prefix}size`] === '100Mi');
  assert.equal(paths.steps.at(-1), 'show db ext4 100Mi');
});

test('a failure is reported once, and retried when a pool changes', async (t) => {
  const { create, failed, processed, pool, api, clock } = staticNode(t);
  await pool.create({ id: 'filler', sizeBytes: 1000n * mebibyte, tags: [] });
  await create();
  assert.match((await failed()) ?? '', /has 24 MiB free, 64 MiB requested; free space/);
  for (let i = 0; i < 5; i++) {
    clock.advance(60_000);
    await settled();
  }
  assert.equal(patches(api.calls), 1);

  await pool.remove('filler');
  clock.advance(500);
  const pv = await processed();
  assert.equal(messageIn(pv), undefined);
});

test('a failure that may pass is retried with backoff, and the same one is written once', async (t) => {
  const { create, failed, processed, paths, api, clock } = staticNode(t);
  const unmountable = () => Object.assign(new Error('mount failed'), { code: 'Internal' });
  paths.failure = unmountable();
  await create();
  assert.equal(await failed(), 'mount failed');
  for (let i = 0; i < 3; i++) {
    paths.failure = unmountable();
    clock.advance(60_000);
    await settled();
  }
  assert.equal(paths.steps.length, 4);
  assert.equal(patches(api.calls), 1);
  clock.advance(60_000);
  await processed();
});

test('a person asks for another attempt by removing the status', async (t) => {
  const { create, failed, processed, pool, change } = staticNode(t);
  pool.failure = new PoolFull('ssd', 2n, 1n);
  await create();
  await failed();
  await settled();
  await change({ metadata: { annotations: { [`${prefix}status`]: null } } });
  await processed();
});

test('an invalid PersistentVolume is refused until it is corrected, and can be deleted', async (t) => {
  const { create, failed, processed, change, delete: remove, until, pool, paths } = staticNode(t);
  await create(handedOver({ annotations: { [`${prefix}fsType`]: 'ntfs' } }));
  assert.match((await failed()) ?? '', /fsType is "ntfs"/);
  await change({ metadata: { annotations: { [`${prefix}fsType`]: 'xfs' } } });
  await processed();
  assert.deepEqual(paths.steps, ['show db xfs 64Mi']);

  await create({ ...handedOver({ spec: { local: { path: '/mnt/pv/other' } } }), metadata: other('wrong') });
  await until((annotations) => annotations[`${prefix}status`] === 'Not-Processed-Errors', 'wrong');
  await remove('wrong');
  await until((annotations) => annotations['moorage.dev/removed'] === 'true', 'wrong');
  assert.deepEqual(
    pool.list().map(({ id }) => id),
    ['db'],
  );
});

const other = (name: string) => ({ ...handedOver().metadata, name });

test('nothing is created in place of a volume that is lost, whatever its status is by then', async (t) => {
  const { create, processed, failed, pool, clock, change } = staticNode(t);
  await create();
  await processed();
  await pool.remove('db');
  clock.advance(500);
  assert.match((await failed()) ?? '', /^the volume was processed, but volume group vg-ssd has no volume db now/);
  await change({ metadata: { annotations: { [`${prefix}status`]: null } } });
  await failed();
  await settled();
  assert.deepEqual(pool.list(), []);
});

test('an existing volume is used if it is all zero, or adopted with its filesystem, and otherwise not touched', async (t) => {
  const { create, failed, processed, change, pool, disk } = staticNode(t);
  await pool.create({ id: 'db', sizeBytes: 64n * mebibyte, tags: [] });
  disk.zeros = { kind: 'data' };
  await create();
  assert.match((await failed()) ?? '', /^the existing volume db is not used: it is not empty; set moorage.dev\/adopt/);
  disk.probe = { kind: 'found', filesystem: 'xfs', uuid: '' };
  await change({ metadata: { annotations: { 'moorage.dev/adopt': 'true' } } });
  await settled();
  assert.match((await failed()) ?? '', /holds xfs, ext4 requested/);
  assert.deepEqual(pool.get('db')?.tags, []);
  await change({ metadata: { annotations: { [`${prefix}fsType`]: 'xfs' } } });
  const pv = await processed();
  assert.deepEqual(pool.get('db')?.tags, [
    ...tags(pv?.metadata.uid ?? ''),
    'moorage.dev/filesystem=xfs',
    'moorage.dev/adopted',
  ]);
});

test('a deleted PersistentVolume waits for its claim and for pods; then its volume is removed', async (t) => {
  const { create, processed, change, delete: remove, until, pool, paths, clock, volumes } = staticNode(t);
  await create(handedOver({ annotations: { 'moorage.dev/on-removal': 'shred' } }));
  await processed();
  const finalizers = ['moorage.dev/local-pv', 'kubernetes.io/pv-protection'];
  await change({ metadata: { finalizers } });
  await remove();
  await settled();
  assert.ok(pool.get('db'), 'a claim is bound');

  paths.failure = new UsedByPod('db', '/pods/x');
  await change({ metadata: { finalizers: finalizers.slice(0, 1) } });
  const pv = await volumes.until('db', (pv) => messageIn(pv) !== undefined, never);
  assert.match(messageIn(pv) ?? '', /still mounted at \/pods\/x/);
  assert.equal(pv?.metadata.annotations?.[`${prefix}status`], 'Processed');
  assert.ok(pool.get('db'), 'a pod uses it');

  const seen: (readonly string[])[] = [];
  pool.onChange(() => seen.push(pool.get('db')?.tags ?? []));
  clock.advance(100);
  await until((annotations) => annotations['moorage.dev/removed'] === 'true');
  assert.ok(seen[0]?.includes('moorage.dev/on-removal=shred'));
  assert.equal(pool.get('db'), undefined);
  assert.equal(messageIn(volumes.get('db')), undefined);
  assert.deepEqual(paths.steps.slice(-2), ['hide db', 'hide db']);
});

test('a foreign volume survives the deletion of a PersistentVolume that never used it', async (t) => {
  const { create, failed, delete: remove, until, pool, disk } = staticNode(t);
  await pool.create({ id: 'db', sizeBytes: 64n * mebibyte, tags: [] });
  disk.zeros = { kind: 'data' };
  await create();
  await failed();
  await remove();
  await until((annotations) => annotations['moorage.dev/removed'] === 'true');
  assert.ok(pool.get('db'));
});

test('without valid defaults nothing new is created and nothing removed, but processed volumes are mounted', async (t) => {
  const { create, processed, setDefaults, change, delete: remove, until, pool, paths, volumes } = staticNode(t);
  await create();
  await processed();
  setDefaults(new InvalidInput('the ConfigMap has invalid defaults'));
  paths.shown.clear();
  await change({ metadata: { annotations: { any: 'change' } } });
  await settled();
  assert.ok(paths.shown.has('db'));

  await remove();
  await volumes.until('db', (pv) => messageIn(pv) === 'the ConfigMap has invalid defaults', never);
  assert.ok(pool.get('db'));

  await create({
    ...handedOver(),
    metadata: other('new'),
    spec: { ...handedOver().spec, local: { path: '/mnt/pv/new' } },
  });
  await until((annotations) => annotations['moorage.dev/message'] === 'the ConfigMap has invalid defaults', 'new');
  setDefaults(parseDefaults({ 'defaults.yaml': 'defaults: {fsType: btrfs}' }));
  await until((annotations) => annotations[`${prefix}fsType`] === 'btrfs', 'new');
  await until((annotations) => annotations['moorage.dev/removed'] === 'true');
});

test('nothing happens before it is known what the defaults are', async (t) => {
  const { create, defaults, setDefaults, processed, api } = staticNode(t);
  defaults.synced = false;
  await create();
  await settled();
  assert.equal(patches(api.calls), 0);
  defaults.synced = true;
  setDefaults(noDefaults);
  await processed();
});

const releasable = handedOver({
  annotations: { [`${prefix}autoRelease`]: 'true' },
  spec: { local: { path: '/mnt/pv/db' }, capacity: { storage: '64Mi' }, claimRef: { uid: 'claim-1' } },
});
const released = { status: { phase: 'Released' } };

test('a released volume is emptied, formatted again and offered to the next claim', async (t) => {
  const { create, processed, change, until, pool, paths } = staticNode(t, { releases: true });
  await create(releasable);
  await processed();
  await change(released);
  await until((annotations) => annotations['moorage.dev/released'] === 'claim-1');
  assert.deepEqual(pool.emptied, [{ id: 'db', policy: { kind: 'zero' } }]);
  assert.deepEqual(paths.steps.slice(-2), ['hide db', 'show db ext4 64Mi']);

  await change({ metadata: { annotations: { any: 'change' } } });
  await settled();
  assert.equal(pool.emptied.length, 1);
});

test('without the flag, without the annotation, or to keep the data, nothing is emptied', async (t) => {
  for (const [releases, annotations] of [
    [false, {}],
    [true, { [`${prefix}autoRelease`]: 'false' }],
    [true, { 'moorage.dev/on-release': 'keep' }],
  ] as const) {
    const { create, processed, change, pool, volumes } = staticNode(t, { releases });
    const { metadata, ...rest } = releasable;
    await create({ ...rest, metadata: { ...metadata, annotations: { ...metadata?.annotations, ...annotations } } });
    await processed();
    await change(released);
    await settled();
    assert.deepEqual(pool.emptied, []);
    const answer = volumes.get('db')?.metadata.annotations?.['moorage.dev/released'];
    assert.equal(answer, undefined, 'the controller would let any claim have it');
  }
});

test('a volume that is bound again while it is about to be emptied keeps its data', async (t) => {
  const { create, processed, change, api, pool, paths } = staticNode(t, { releases: true });
  await create(releasable);
  await processed();
  const get = api.get.bind(api);
  api.get = async (resource, name) => {
    await api.patch(persistentVolumes, name, {
      type: 'merge',
      body: { spec: { claimRef: { uid: 'claim-2' } }, status: { phase: 'Bound' } },
    });
    return get(resource, name);
  };
  await change(released);
  await settled();
  assert.deepEqual(pool.emptied, []);
  assert.ok(paths.shown.has('db'), 'it is mounted again');
});

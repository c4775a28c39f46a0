import assert from 'node:assert/strict';
import { dirname } from 'node:path';
import { test } from 'node:test';
import { exists } from '../base/exists.ts';
import type { Publication } from '../csi/node/node-volumes.ts';
import { node } from './testing/in-memory-node.ts';

const never = new AbortController().signal;

const inlineOf = (publication: Publication, sizeBytes = 1n): Publication => ({
  ...publication,
  volumeId: 'csi-1',
  stagingPath: undefined,
  ephemeral: { sizeBytes, deviceClass: '', podUid: 'p', forClassesOnly: [] },
});

test('an inline ephemeral volume exists from publishing to unpublishing', async (t) => {
  const { volumes, publication, targetPath, mounts, pool } = await node(t);
  const sizeBytes = 2n * 1024n ** 3n;
  for (let i = 0; i < 2; i++) await volumes.publish(inlineOf(publication, sizeBytes), never);
  const { sizeBytes: created, tags } = pool.get('csi-1') ?? {};
  assert.deepEqual({ created, tags }, { created: sizeBytes, tags: ['ephemeral', 'moorage.dev/pod=p'] });
  assert.ok(mounts.table.has(targetPath));

  for (let i = 0; i < 2; i++) await volumes.unpublish('csi-1', targetPath, never);
  assert.equal(pool.get('csi-1'), undefined);
});

test('an ephemeral volume that cannot be published is removed at once, as nobody would unpublish it', async (t) => {
  const { volumes, publication, targetPath, mounts, pool } = await node(t);
  mounts.mountAt = () => Promise.reject(new Error('no'));
  await assert.rejects(volumes.publish(inlineOf(publication), never), { message: 'no' });
  assert.equal(pool.get('csi-1'), undefined);
  assert.equal(await exists(targetPath), false);

  pool.remove = () => Promise.reject(new Error('busy'));
  await assert.rejects(volumes.publish(inlineOf(publication), never), {
    code: 'Unavailable', // the kubelet then unpublishes it
    message: 'no; and cannot remove ephemeral volume csi-1 yet: busy',
  });
});

test('an ephemeral volume whose caller left is kept', async (t) => {
  const { volumes, publication, targetPath, mounts, pool } = await node(t);
  const caller = new AbortController();
  mounts.mountAt = async () => {
    caller.abort();
    throw new Error('no');
  };
  await assert.rejects(volumes.publish(inlineOf(publication), caller.signal), /no/);
  assert.ok(pool.get('csi-1'));
  await volumes.unpublish('csi-1', targetPath, never);
  assert.equal(pool.get('csi-1'), undefined);
});

test('an ephemeral volume that existed before is kept if it cannot be published again', async (t) => {
  const { volumes, publication, mounts, pool } = await node(t);
  await volumes.publish(inlineOf(publication), never);
  mounts.table.clear(); // as after a reboot
  mounts.mountAt = () => Promise.reject(new Error('no'));
  await assert.rejects(volumes.publish(inlineOf(publication), never), /no/);
  assert.ok(pool.get('csi-1'), 'it may hold data of the pod');
});

test('a volume without the ephemeral tag is kept when it is unpublished', async (t) => {
  const { volumes, targetPath, pool } = await node(t);
  await volumes.unpublish('v', targetPath, never);
  assert.ok(pool.get('v'));
  assert.ok(await exists(dirname(dirname(targetPath))));
});

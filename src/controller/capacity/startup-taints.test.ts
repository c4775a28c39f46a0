import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLog } from '../../base/testing/silent-log.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Node, Stored } from '../../kube/resource.ts';
import { annotatedNode } from './annotated-capacities.ts';
import { startupTaints } from './startup-taints.ts';

const taint = 'startup-taint.cluster-autoscaler.kubernetes.io/moorage';
const others = [{ key: 'dedicated', value: 'db', effect: 'NoSchedule' }];

/** The taints that are written for a node with these capacities; undefined if nothing is. */
async function written(
  taints: readonly string[],
  capacities: readonly string[],
): Promise<readonly string[] | undefined> {
  const spec = { taints: [...others, ...taints.map((key) => ({ key, effect: 'NoSchedule' }))] };
  const node = { metadata: { name: 'a', resourceVersion: '7' }, spec } as unknown as Stored<Node>;
  let body: { metadata: object; spec: { taints: readonly { key: string }[] } } | undefined;
  const client = {
    get: async () => node,
    patch: async (_resource: unknown, _name: string, patch: { body: typeof body }) => void (body = patch.body),
  } as unknown as Pick<KubeClient, 'get' | 'patch'>;
  const published = capacities.map((capacity, index) => ({
    ...{ name: `c${index}`, uid: `${index}`, nodeName: 'a', storageClass: `class-${index}`, capacity },
    ownerUid: undefined,
  }));
  const work = startupTaints({
    taint,
    client,
    nodes: { get: () => annotatedNode(node), onChange: () => () => {} },
    published: { list: () => published, onChange: () => () => {} },
    log: silentLog,
  });
  await work.reconcile('a', new AbortController().signal, { isRetry: false } as never);
  if (body) assert.deepEqual(body.metadata, { resourceVersion: '7' }, 'another taint could be lost');
  return body?.spec.taints.map(({ key }) => key);
}

test('the taint is removed, and only this one, once the node has room for a class', async () => {
  assert.deepEqual(await written([taint], ['0', '1Gi']), ['dedicated']);
});

test('a node without published room keeps its taint, and one without the taint is left alone', async () => {
  assert.equal(await written([taint], []), undefined);
  assert.equal(await written([taint], ['0', '']), undefined);
  assert.equal(await written([], ['1Gi']), undefined);
});

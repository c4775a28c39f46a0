import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { silentLog } from '../base/testing/silent-log.ts';
import type { KubeClient } from '../kube/client.ts';
import type { Pod } from '../kube/resource.ts';
import { PodWebhook } from './pod-webhook.ts';

const gibi = 1024 ** 3;
const storageClass = (name: string, deviceClass?: string) => ({
  metadata: { name },
  provisioner: name === 'other' ? 'other.example.com' : 'topolvm.io',
  ...(deviceClass !== undefined && { parameters: { 'topolvm.io/device-class': deviceClass } }),
});
const claim = (name: string, storageClassName: string | undefined, storage?: string, phase = 'Pending') => ({
  metadata: { name },
  spec: { ...(storageClassName && { storageClassName }), ...(storage && { resources: { requests: { storage } } }) },
  status: { phase },
});

const objects: Record<string, object> = {
  'StorageClass /plain': storageClass('plain'),
  'StorageClass /fast': storageClass('fast', 'ssd'),
  'StorageClass /blank': storageClass('blank', ''),
  'StorageClass /other': storageClass('other'),
  'PersistentVolumeClaim shop/one': claim('one', 'plain', '1Gi'),
  'PersistentVolumeClaim shop/half': claim('half', 'plain', '1.5Gi'),
  'PersistentVolumeClaim shop/blank': claim('blank', 'blank', '512Mi'),
  'PersistentVolumeClaim shop/fast': claim('fast', 'fast', '100Mi'),
  'PersistentVolumeClaim shop/any': claim('any', 'plain'),
  'PersistentVolumeClaim shop/bound': claim('bound', 'plain', '1Gi', 'Bound'),
  'PersistentVolumeClaim shop/other': claim('other', 'other', '1Gi', 'Bound'),
  'PersistentVolumeClaim shop/classless': claim('classless', undefined, '1Gi'),
  'PersistentVolumeClaim shop/stray': claim('stray', 'unknown', '1Gi'),
};

/** An API server with the objects above in one namespace. */
const client = {
  get: async ({ kind }: { kind: string }, name: string, { namespace = '' }: { namespace?: string } = {}) =>
    objects[`${kind} ${namespace}/${name}`],
} as unknown as Pick<KubeClient, 'get'>;

function pod(...claims: string[]): Pod {
  const volumes = claims.map((claimName) => ({ name: claimName, persistentVolumeClaim: { claimName } }));
  return { metadata: { name: 'p' }, spec: { containers: [{ name: 'first' }, { name: 'second' }], volumes } };
}

interface Response {
  readonly uid: string;
  readonly allowed: boolean;
  readonly patch?: string;
  readonly status?: { readonly message: string };
}

async function review(object: Pod, clients: Pick<KubeClient, 'get'> = client): Promise<Response> {
  const webhook = new PodWebhook({ client: clients, log: silentLog });
  const answer = await webhook.mutate({ request: { uid: '1', namespace: 'shop', object } });
  return (answer as { response: Response }).response;
}

interface Steps {
  annotations: Record<string, string>;
  resources: Record<string, Record<string, string>>;
}

/** The pod after the patch; undefined if there is none. */
async function patched(object: Pod): Promise<Steps | undefined> {
  const { allowed, patch } = await review(object);
  assert.ok(allowed);
  if (!patch) return undefined;
  const steps = JSON.parse(Buffer.from(patch, 'base64').toString()) as { op: string; path: string; value: never }[];
  assert.deepEqual(
    steps.map(({ op, path }) => `${op} ${path}`),
    ['add /metadata/annotations', 'add /spec/containers/0/resources'],
  );
  const [annotations, resources] = steps.map(({ value }) => value);
  return { annotations, resources } as unknown as Steps;
}

test('the requests of claims are summed up by device class', async () => {
  const { annotations, resources } = (await patched(pod('one', 'half', 'blank', 'fast', 'any'))) ?? {};
  assert.deepEqual(annotations, {
    'capacity.topolvm.io/00default': String(4 * gibi),
    'capacity.topolvm.io/ssd': String(100 * 1024 ** 2),
  });
  const one = { 'topolvm.io/capacity': '1' };
  assert.deepEqual(resources, { requests: one, limits: one });
});

test('a generic ephemeral volume counts like a claim', async () => {
  const template = (storageClassName: string) => ({ volumeClaimTemplate: claim('', storageClassName, '2Gi') });
  const { metadata, spec } = pod('one');
  const volumes = [
    ...(spec?.volumes ?? []),
    { name: 'scratch', ephemeral: template('plain') },
    { name: 'foreign', ephemeral: template('other') },
    { name: 'empty', emptyDir: {} },
  ];
  const withScratch = { metadata, spec: { ...spec, containers: [{ name: 'first' }], volumes } } as Pod;
  assert.deepEqual((await patched(withScratch))?.annotations, { 'capacity.topolvm.io/00default': String(3 * gibi) });
});

test('existing annotations and resources of the pod stay', async () => {
  const object = pod('one');
  const resources = { requests: { cpu: '1', 'topolvm.io/capacity': '7' }, limits: { cpu: '2' }, claims: [] };
  const given = {
    metadata: { annotations: { note: 'mine' } },
    spec: { ...object.spec, containers: [{ name: 'first', resources }] },
  } as Pod;
  assert.deepEqual(await patched(given), {
    annotations: { note: 'mine', 'capacity.topolvm.io/00default': String(gibi) },
    resources: {
      requests: { cpu: '1', 'topolvm.io/capacity': '1' },
      limits: { cpu: '2', 'topolvm.io/capacity': '1' },
      claims: [],
    },
  });
});

for (const [what, object] of [
  ['without volumes', pod()],
  ['whose claim already has its volume', pod('one', 'bound')],
  ["with others' volumes", pod('other', 'classless', 'stray')],
  ['whose claim does not exist yet', pod('later')],
  ['without containers', { spec: { ...pod('one').spec, containers: [] } } as Pod],
] as const) {
  test(`a pod ${what} is not changed`, async () => assert.equal(await patched(object), undefined));
}

test('a bound claim of another driver does not affect our claims', async () => {
  assert.deepEqual((await patched(pod('other', 'one')))?.annotations, {
    'capacity.topolvm.io/00default': String(gibi),
  });
});

test('a pod with very many claims does not crowd out other requests', async () => {
  let [open, most, classes] = [0, 0, 0];
  const counting = {
    get: async ({ kind }: { kind: string }) => {
      if (kind === 'StorageClass') classes += 1;
      most = Math.max(most, ++open);
      await setImmediate();
      open -= 1;
      return objects[kind === 'StorageClass' ? 'StorageClass /plain' : 'PersistentVolumeClaim shop/one'];
    },
  } as unknown as Pick<KubeClient, 'get'>;
  const { allowed } = await review(pod(...Array.from({ length: 1000 }, (_, index) => `claim-${index}`)), counting);
  assert.deepEqual({ allowed, most, classes }, { allowed: true, most: 1, classes: 1 });
});

test('a pod is refused while the API server does not answer', async () => {
  const unreachable = { get: () => Promise.reject(new Error('no answer')) };
  const { allowed, status } = await review(pod('one'), unreachable);
  assert.equal(allowed, false);
  assert.equal(status?.message, 'no answer');
});

test('a body that is not an AdmissionReview is refused', async () => {
  const webhook = new PodWebhook({ client, log: silentLog });
  for (const body of [undefined, 'x', {}, { request: {} }, { request: { uid: '1' } }]) {
    await assert.rejects(webhook.mutate(body), {
      code: 'InvalidArgument',
      message: /; send an AdmissionReview of admission.k8s.io\/v1 for a Pod$/,
    });
  }
});

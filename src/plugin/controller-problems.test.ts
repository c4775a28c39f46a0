import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Deployment, Stored } from '../kube/resource.ts';
import { controllerProblems, webhookProblems } from './controller-problems.ts';

const metadata = { name: 'moorage-controller', namespace: 'm', uid: 'u', resourceVersion: '1', creationTimestamp: '' };

function deployment(component: string, replicas: number, readyReplicas?: number): Stored<Deployment> {
  const matchLabels = { 'app.kubernetes.io/component': component };
  const template = { metadata: {}, spec: { containers: [] } };
  return {
    metadata,
    spec: { replicas, selector: { matchLabels }, template },
    status: readyReplicas ? { readyReplicas } : {},
  };
}

const none = 'error: there is none, so no volume is created, moved or removed: see kubectl moorage doctor';
const unready = 'error: 0 of 2 replicas ready, so no volume is created, moved or removed: see kubectl moorage doctor';
for (const [what, deployments, expected] of [
  ['all replicas are ready', [deployment('controller', 2, 2)], []],
  ['more are ready, during an upgrade', [deployment('controller', 2, 3)], []],
  [
    'one replica is missing',
    [deployment('controller', 2, 1)],
    ['warning: 1 of 2 replicas ready: see kubectl moorage doctor'],
  ],
  ['no replica is ready', [deployment('controller', 2)], [unready]],
  ['it was scaled to none', [deployment('controller', 0)], [unready.replace('of 2', 'of 0')]],
  ['there is only the scheduler extender', [deployment('scheduler', 2, 2)], [none]],
] as const) {
  test(`the controller: ${what}`, () => {
    assert.deepEqual(
      controllerProblems(deployments).map(({ severity, what }) => `${severity}: ${what}`),
      expected,
    );
  });
}

const clientConfig = { service: { name: 'moorage-controller', namespace: 'm' } };
const hook = { admissionReviewVersions: ['v1'], sideEffects: 'None', clientConfig };
const configuration = { metadata, webhooks: ['a', 'b'].map((name) => ({ ...hook, name })) };
const slice = (service: string, ...ready: boolean[]) => ({
  metadata: { ...metadata, labels: { 'kubernetes.io/service-name': service } },
  addressType: 'IPv4',
  endpoints: ready.map((each) => ({ addresses: ['10.0.0.1'], conditions: { ready: each } })),
});

for (const [what, configurations, slices, isProblem] of [
  ['one endpoint is ready', [configuration], [slice('moorage-controller', false, true)], false],
  ['no endpoint is ready', [configuration], [slice('moorage-controller', false), slice('other', true)], true],
  ['there is no endpoint', [configuration], [], true],
  ['none is installed', [], [], false],
] as const) {
  test(`the webhook: ${what}`, () => {
    const problems = webhookProblems(configurations, slices);
    const what =
      'the API server cannot call it: Service moorage-controller has no ready endpoint: see kubectl moorage doctor';
    const about = 'webhook configuration moorage';
    assert.deepEqual(problems, isProblem ? [{ severity: 'error', about, what }] : []);
  });
}

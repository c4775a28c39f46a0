import assert from 'node:assert/strict';
import { test } from 'node:test';
import { find, render, type Value } from './chart.ts';

interface Rule {
  readonly ports: readonly { readonly port: string | number }[];
  readonly from?: readonly object[];
  readonly to?: readonly object[];
}

async function policyOf(component: string, ...values: readonly Value[]) {
  const { spec } = find(await render(...values), 'NetworkPolicy', `moorage-${component}`) as unknown as {
    spec: { ingress: readonly Rule[]; egress: readonly Rule[] };
  };
  const shown = ({ ports, ...peers }: Rule) => ({ ports: ports.map(({ port }) => port), ...peers });
  return { ingress: spec.ingress.map(shown), egress: spec.egress.map(shown) };
}

const metricsFrom = 'networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.name=monitoring';
const monitoring = [{ namespaceSelector: { matchLabels: { name: 'monitoring' } } }];
const agents = [
  { podSelector: { matchLabels: { 'app.kubernetes.io/component': 'node', 'app.kubernetes.io/name': 'moorage' } } },
];
const sidecars = ['metrics', 'provisioner', 'resizer', 'snapshotter'];

test('pods may call the ports of the API server at any address, unless its addresses are listed', async () => {
  const ports = [443, 6443, 16443];
  for (const component of ['controller', 'node']) {
    const toAgents = component === 'node' ? [{ ports: ['moves'], to: agents }] : [];
    assert.deepEqual((await policyOf(component)).egress, [{ ports }, ...toAgents]);
    const named: readonly Value[] = ['networkPolicy.apiServerCIDRs={10.0.0.10/32,fd00::/64}'];
    const to = [{ ipBlock: { cidr: '10.0.0.10/32' } }, { ipBlock: { cidr: 'fd00::/64' } }];
    assert.deepEqual((await policyOf(component, ...named)).egress, [{ ports, to }, ...toAgents]);
  }
  assert.deepEqual((await policyOf('scheduler', 'scheduler.enabled=true')).egress, []);
});

const validating = ['evictions', 'classes', 'changes'].map((name): Value => `webhook.${name}.enabled=false`);
const fromAgents = { ports: ['moves'], from: agents };

test('everybody can read metrics, unless the values restrict it', async () => {
  assert.deepEqual((await policyOf('node')).ingress, [{ ports: ['metrics'] }, fromAgents]);
  assert.deepEqual((await policyOf('controller', ...validating)).ingress, [{ ports: sidecars }]);
  assert.deepEqual((await policyOf('node', metricsFrom)).ingress, [
    { ports: ['metrics'], from: monitoring },
    fromAgents,
  ]);
});

test('webhooks and the extender can be called even if metrics are restricted', async () => {
  const onlyPods: readonly Value[] = ['webhook.podMutatingWebhook.enabled=true', ...validating];
  for (const webhooks of [[], onlyPods]) {
    assert.deepEqual((await policyOf('controller', ...webhooks, metricsFrom)).ingress, [
      { ports: sidecars, from: monitoring },
      { ports: ['webhook'] },
    ]);
  }
  assert.deepEqual((await policyOf('scheduler', 'scheduler.enabled=true', metricsFrom)).ingress, [
    { ports: ['extender'] },
  ]);
});

import type { TestContext } from 'node:test';
import type { KubeClient } from '../../src/kube/client.ts';
import { nodes } from '../../src/kube/resource.ts';
import { Machines } from './machines.ts';
import { SimulatedMovers } from './simulated-movers.ts';

/** The annotation of a node with space for everything. */
export const room = { 'capacity.topolvm.io/00default': String(100 * 1024 ** 3) };

/** Machines and their agents. When the test ends, there is no node left. */
export function simulatedNodes(t: TestContext, client: KubeClient) {
  const machines = new Machines(client);
  const movers = new SimulatedMovers(client);
  t.after(async () => {
    await Promise.all([machines.stop(), movers.stop()]);
    for (const { metadata } of (await client.list(nodes)).items) {
      await client.patch(nodes, metadata.name, { type: 'merge', body: { metadata: { finalizers: null } } });
      await client.delete(nodes, metadata.name);
    }
  });
  return { machines, movers };
}

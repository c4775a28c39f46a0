import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { stringify } from 'yaml';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { nodeStorages } from '../../src/api/node-storage.ts';
import { volumeMoves } from '../../src/api/volume-move.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { nodes } from '../../src/kube/resource.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { type ApiServer, connect, startApiServer, withToken } from '../kube/api-server.ts';
import { type ChartName, namespace, textOf, type Value } from './chart.ts';

/** The chart's objects on a real API server, without its programs, and clients with the tokens of its ServiceAccounts. */
export class InstalledChart {
  readonly api: ApiServer;
  readonly #dir: string;

  private constructor(api: ApiServer, dir: string) {
    this.api = api;
    this.#dir = dir;
  }

  /** Shared by all tests of a file: call it at the top. */
  static async start(...values: readonly Value[]): Promise<InstalledChart> {
    const installed = await InstalledChart.of('moorage', ...values);
    const crds = ['logicalvolumes.topolvm.io', 'nodestorages.moorage.dev', 'volumemoves.moorage.dev'];
    await installed.api.cluster.kubectl('wait', '--for=condition=Established', ...crds.map((name) => `crd/${name}`));
    return installed;
  }

  static async of(chart: ChartName, ...values: readonly Value[]): Promise<InstalledChart> {
    const api = await startApiServer();
    const dir = await mkdtemp(join(tmpdir(), 'moorage-chart-'));
    after(() => rm(dir, { recursive: true }));
    const installed = new InstalledChart(api, dir);
    const { kubectl } = api.cluster;
    await kubectl('create', 'namespace', namespace);
    await kubectl('label', 'namespace', namespace, 'pod-security.kubernetes.io/enforce=privileged');
    await installed.apply('chart', await textOf(chart, values, '--no-hooks'));
    return installed;
  }

  async apply(name: string, manifest: string, ...words: readonly string[]): Promise<void> {
    const file = join(this.#dir, `${name}.yaml`);
    await writeFile(file, manifest);
    await this.api.cluster.kubectl('apply', '--server-side', `--filename=${file}`, ...words);
  }

  /** A client with the token of the agent's pod on a node. Resolves when the policies are in force. */
  async agentOf(nodeName: string): Promise<KubeClient> {
    const agent = await this.tokenOf(nodeName);
    await this.#inForce(agent);
    return agent;
  }

  /** The same, at once. */
  async tokenOf(nodeName: string): Promise<KubeClient> {
    const name = `agent-of-${nodeName}`;
    const pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, namespace },
      spec: { nodeName, serviceAccountName: 'moorage-node', containers: [{ name: 'node', image: 'moorage' }] },
    };
    await this.apply(name, stringify(pod));
    return this.clientOf('moorage-node', '--bound-object-kind=Pod', `--bound-object-name=${name}`);
  }

  async clientOf(account: string, ...bound: readonly string[]): Promise<KubeClient> {
    const token = await this.api.cluster.kubectl('--namespace', namespace, 'create', 'token', account, ...bound);
    return connect({ after }, await withToken(this.api.connection, token.trim()));
  }

  /** The API server learns of policies through a watch, with a delay. */
  async #inForce(agent: KubeClient): Promise<void> {
    const { admin } = this.api;
    const isRefused = (request: Promise<unknown>, words: RegExp) =>
      request.then(
        () => false,
        (error: Error) => words.test(error.message),
      );
    const empty = { type: 'merge', body: {} } as const;
    const elsewhere = 'policy-probe';
    const spec = { name: elsewhere, nodeName: elsewhere, size: '1Gi' };
    const annotations = { 'moorage.dev/allow-delete': 'true' };
    await admin.create(logicalVolumes, { metadata: { name: elsewhere, annotations }, spec });
    await admin.create(nodes, { metadata: { name: elsewhere } });
    await eventually('the policy for LogicalVolumes is in effect', () =>
      isRefused(agent.patch(logicalVolumes, elsewhere, empty), /only the LogicalVolumes of its own node/),
    );
    await eventually('the policy for Nodes is in effect', () =>
      isRefused(agent.patch(nodes, elsewhere, empty), /only its own Node/),
    );
    await eventually('the policy for NodeStorages is in effect', () =>
      isRefused(agent.create(nodeStorages, { metadata: { name: elsewhere } }), /only the NodeStorage of its own node/),
    );
    const place = { namespace: 'default' };
    await admin.create(volumeMoves, { metadata: { name: elsewhere, ...place }, spec: { claimName: elsewhere } });
    const reached = { type: 'merge', body: { status: { source: { fenced: true } } } } as const;
    await eventually('the policy for VolumeMoves is in effect', () =>
      isRefused(
        agent.patch(volumeMoves, elsewhere, reached, { ...place, subresource: 'status' }),
        /write the source of a VolumeMove only/,
      ),
    );
    await admin.delete(volumeMoves, elsewhere, place);
    await admin.delete(logicalVolumes, elsewhere);
    await admin.delete(nodes, elsewhere);
    await admin.delete(nodeStorages, elsewhere);
  }
}

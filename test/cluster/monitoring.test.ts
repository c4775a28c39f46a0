import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { stringify } from 'yaml';
import { dashboard } from '../../scripts/manifests/dashboard.ts';
import type { Pod, Stored } from '../../src/kube/resource.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';
import { Component } from '../../worlds/cluster/component.ts';
import { forwardPort } from '../../worlds/cluster/forward-port.ts';
import type { Moorage } from '../../worlds/cluster/moorage.ts';
import { ensurePrometheus } from '../../worlds/cluster/prometheus.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { find, namespace, render } from '../chart/chart.ts';
import { sharedCluster } from './shared-cluster.ts';
import { TestNamespace } from './test-namespace.ts';

const home = join(import.meta.dirname, '..', '..');
const rendered = await render('prometheus.rules.enabled=true');
const { groups } = find(rendered, 'PrometheusRule', 'moorage')['spec'] as {
  groups: readonly { rules: readonly { alert?: string; record?: string; expr: string }[] }[];
};
const rules = groups.flatMap((group) => group.rules);

const ports = { prometheus: 9090, lvmd: 9098 };

interface Query {
  readonly name: string;
  readonly expr: string;
}

/** Of kube-state-metrics, which does not run here. */
const ofOthers = /^kube_/;

describe('a Prometheus that scrapes this cluster', () => {
  let cluster: Cluster;
  let moorage: Moorage;
  let address: string;
  let components: readonly Component[] = [];
  let ns: TestNamespace;

  before(async () => {
    ({ cluster, moorage } = await sharedCluster());
    const dir = join(cluster.dir, 'prometheus');
    await mkdir(join(dir, 'files'), { recursive: true });
    const start = (name: string, ...argv: readonly string[]) => {
      const component = new Component(cluster.namespaces, dir, name, argv);
      components = [...components, component];
      component.start();
    };
    const classes = [{ name: 'files', type: 'file', path: join(dir, 'files'), default: true, 'spare-gb': 0 }];
    await writeFile(
      join(dir, 'lvmd.yaml'),
      stringify({ 'socket-name': join(dir, 'l.sock'), 'device-classes': classes }),
    );
    start(
      'lvmd',
      ...[process.execPath, join(home, 'src', 'main.ts'), 'lvmd', `--config=${join(dir, 'lvmd.yaml')}`],
      ...[`--state-dir=${dir}`, `--metrics-addr=127.0.0.1:${ports.lvmd}`],
    );
    ns = await TestNamespace.create(cluster, 'measured');
    await ns.claim('data');
    await ns.pod('user', { claims: { '/data': 'data' } });
    await ns.ready('user');

    const agents = await Promise.all(cluster.nodes.map((node) => moorage.agentOn(node)));
    const targets = [await moorage.controller(), ...agents].map(targetOf);
    const lvmd = { targets: [`127.0.0.1:${ports.lvmd}`], labels: { pod: 'lvmd', component: 'lvmd' } };
    const config = {
      global: { scrape_interval: '1s', evaluation_interval: '1s' },
      rule_files: ['rules.yaml'],
      scrape_configs: [{ job_name: `${namespace}/moorage`, static_configs: [...targets, lvmd] }],
    };
    await writeFile(join(dir, 'prometheus.yaml'), stringify(config));
    await writeFile(join(dir, 'rules.yaml'), stringify({ groups }));
    const { prometheus } = await ensurePrometheus();
    start(
      'prometheus',
      ...[prometheus, `--config.file=${join(dir, 'prometheus.yaml')}`, `--storage.tsdb.path=${join(dir, 'data')}`],
      `--web.listen-address=127.0.0.1:${ports.prometheus}`,
    );
    const port = await forwardPort(cluster.namespaces, { host: '127.0.0.1', port: ports.prometheus });
    address = `http://127.0.0.1:${port}`;
  });
  after(async () => {
    for (const component of components) await component.kill();
    await ns?.empty();
    await moorage.whenNoVolumes();
  });

  const api = async <T>(path: string): Promise<T> => {
    const answer = await fetch(`${address}/api/v1/${path}`);
    const { status, data, error } = (await answer.json()) as { status: string; data: T; error?: string };
    if (status !== 'success') throw new Error(`${path}: ${error}`);
    return data;
  };

  /** Real numbers: 0/0 is no data. */
  const values = async (expr: string): Promise<number[]> => {
    const { result } = await api<{ result: { value: [number, string] }[] }>(`query?query=${encodeURIComponent(expr)}`);
    return result.map(({ value: [, text] }) => Number(text)).filter((value) => !Number.isNaN(value));
  };

  let passed = 0;
  const aVolumeComesAndGoes = async () => {
    passed += 1;
    const name = `passing-${passed}`;
    await ns.claim(name, { node: 'node-a' });
    await ns.volumeId(name);
    await ns.deleteClaim(name);
  };

  /** A quantile of a rate has data only while something happens, so volumes come and go until all have data. */
  const allHaveData = async (what: string, queries: readonly Query[]) => {
    const lacking = async () => {
      const found = await Promise.all(
        queries.map(async ({ name, expr }) => ({ name, expr, values: await values(expr) })),
      );
      return found.filter(({ values }) => values.length === 0).map(({ name, expr }) => `no data: ${name}: ${expr}`);
    };
    const log = () => readFile(join(cluster.dir, 'prometheus', 'prometheus.log'), 'utf8');
    const explain = () => lacking().then((lines) => lines.join('\n'), log);
    const haveAll = async () => (await lacking()).length === 0;
    await eventually(what, async () => (await haveAll()) || (await aVolumeComesAndGoes(), false), { explain });
  };

  test('every query of the dashboard returns data', async () => {
    const { panels } = JSON.parse(dashboard()) as { panels: { title: string; targets?: { expr: string }[] }[] };
    const queries = panels.flatMap(({ title, targets = [] }) =>
      targets.map(({ expr }) => ({ name: title, expr: expr.replaceAll(/\$(node|device_class)/g, '.*') })),
    );
    assert.ok(queries.length > 20);
    await allHaveData('the dashboard has data', queries);
  });

  test('every recording rule returns data, and so does what every alert compares', async () => {
    const queries = rules
      .filter(({ expr }) => !ofOthers.test(expr))
      .map(({ record, alert = '', expr }) => ({
        name: record ?? alert,
        expr: record ?? expr.replace(/ (<|>|==) [\d.]+$/, ''),
      }));
    await allHaveData('rules and alerts have data', queries);
  });

  test('no alert fires here', async () => {
    assert.deepEqual(await values('ALERTS{alertstate="firing"}'), []);
  });

  test('docs/metrics.md has every metric that a process serves, and no other', async () => {
    const documented = metricsIn(await readFile(join(home, 'docs', 'metrics.md'), 'utf8'));
    for (const component of ['node', 'controller', 'lvmd']) {
      const target = encodeURIComponent(`{component="${component}"}`);
      const served = await eventually(`${component} is scraped`, async () => {
        const found = await api<{ metric: string }[]>(`targets/metadata?match_target=${target}`);
        return found.length > 0 && found;
      });
      const expected = documented.filter(({ servedBy }) => servedBy.includes(component)).map(({ name }) => name);
      assert.deepEqual([...new Set(served.map(({ metric }) => metric))].toSorted(), expected.toSorted(), component);
    }
  });
});

/** As the PodMonitor of the chart labels it. */
function targetOf({ metadata, status }: Stored<Pod>) {
  const component = metadata.labels?.['app.kubernetes.io/component'] ?? '';
  return { targets: [`${status?.podIP}:8080`], labels: { namespace, pod: metadata.name, component } };
}

/** The rows of tables whose last column is "served by". */
function metricsIn(page: string): readonly { readonly name: string; readonly servedBy: readonly string[] }[] {
  return page
    .split('\n\n')
    .filter((block) => /^\|.*\| served by \|$/m.test(block))
    .flatMap((table) => table.split('\n').slice(2))
    .flatMap((row) => {
      const cells = row.split('|').slice(1, -1);
      const names = [...(cells[0] ?? '').matchAll(/`(\w+)`/g)].map(([, name = '']) => name);
      const servedBy = (cells.at(-1) ?? '').trim().split(', ');
      return names.map((name) => ({ name, servedBy }));
    });
}

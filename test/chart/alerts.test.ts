import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { stringify } from 'yaml';
import { dashboard, dashboardPath } from '../../scripts/manifests/dashboard.ts';
import { ensurePrometheus } from '../../worlds/cluster/prometheus.ts';
import { run } from '../../worlds/host/processes.ts';
import { find, render } from './chart.ts';

interface Rule {
  readonly alert?: string;
  readonly record?: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

const objects = await render('prometheus.rules.enabled=true', 'grafana.dashboard.enabled=true');
const spec = find(objects, 'PrometheusRule', 'moorage')['spec'] as { groups: readonly { rules: readonly Rule[] }[] };
const alerts = spec.groups.flatMap(({ rules }) => rules).filter(({ alert }) => alert);
const { promtool } = await ensurePrometheus();
const dir = await mkdtemp(join(tmpdir(), 'moorage-alerts-'));
after(() => rm(dir, { recursive: true }));
await writeFile(join(dir, 'rules.yaml'), stringify(spec));

const agent = 'job="moorage-system/moorage",pod="agent-1"';
const pool = `${agent},node="a",device_class="ssd"`;
const volume = `${pool},volume="id",claim="db/data"`;

/** Series in promtool's notation (`10-1x60`: 61 values, each one less than the one before), one value a minute. */
type Series = Readonly<Record<string, string>>;

/** What an installation without problems has. */
const well: Series = {
  'kube_daemonset_status_number_unavailable{daemonset="moorage-node"}': '0x120',
  [`up{${agent}}`]: '1x120',
  [`moorage_config_accepted{${agent}}`]: '1x120',
  [`topolvm_volumegroup_available_bytes{${pool}}`]: '50x120',
  [`topolvm_volumegroup_size_bytes{${pool}}`]: '100x120',
  [`topolvm_thinpool_data_percent{${pool}}`]: '84x120',
  [`topolvm_thinpool_metadata_percent{${pool}}`]: '79x120',
  [`moorage_volume_used_bytes{${volume}}`]: '90x120',
  [`moorage_volume_size_bytes{${volume}}`]: '100x120',
  [`moorage_orphans{${agent},node="a",kind="ClassGone"}`]: '0x120',
  'moorage_orphans{pod="controller-1",kind="Missing"}': '0x120',
  'moorage_orphans{pod="controller-1",kind="Released"}': '5x120',
  [`moorage_queue_keys{${agent},queue="node",state="failing"}`]: '0x120',
  [`moorage_queue_keys{${agent},queue="node",state="waiting"}`]: '7x120',
  [`moorage_watch_synced{${agent},watch="node"}`]: '1x120',
  [`moorage_watch_last_event_age_seconds{${agent},watch="node"}`]: '59x120',
  [`moorage_lvm_shell_failures_total{${agent}}`]: '0x120',
};

/** What makes each alert fire, and nothing else. */
const faults: Readonly<Record<string, Series>> = {
  MoorageNodeDown: { 'kube_daemonset_status_number_unavailable{daemonset="moorage-node"}': '1x120' },
  MoorageTargetDown: { [`up{${agent}}`]: '0x120' },
  MoorageConfigurationRefused: { [`moorage_config_accepted{${agent}}`]: '0x120' },
  MooragePoolNearlyFull: { [`topolvm_volumegroup_available_bytes{${pool}}`]: '9x120' },
  MooragePoolFullSoon: {
    [`topolvm_volumegroup_available_bytes{${pool}}`]: '60000-50x120',
    [`topolvm_volumegroup_size_bytes{${pool}}`]: '100000x120',
  },
  MoorageThinPoolDataNearlyFull: { [`topolvm_thinpool_data_percent{${pool}}`]: '86x120' },
  MoorageThinPoolMetadataNearlyFull: { [`topolvm_thinpool_metadata_percent{${pool}}`]: '81x120' },
  MoorageVolumeNearlyFull: { [`moorage_volume_used_bytes{${volume}}`]: '96x120' },
  MoorageVolumesLost: { 'moorage_orphans{pod="controller-1",kind="Missing"}': '2x120' },
  MoorageQueueFailing: { [`moorage_queue_keys{${agent},queue="node",state="failing"}`]: '1x120' },
  MoorageWatchStale: { [`moorage_watch_synced{${agent},watch="node"}`]: '0x120' },
  MoorageWatchSilent: { [`moorage_watch_last_event_age_seconds{${agent},watch="node"}`]: '301+60x120' },
  MoorageLvmShellFails: { [`moorage_lvm_shell_failures_total{${agent}}`]: '0+1x120' },
};

/** The alerts that fire after two hours, by promtool: it fails if one fires that should not, or the reverse. */
async function firing(series: Series, names: readonly string[]): Promise<void> {
  const file = join(dir, `${names.join('-') || 'well'}.yaml`);
  const input = { ...well, ...series };
  const fired = new Set(names);
  const tests = [
    {
      interval: '1m',
      input_series: Object.entries(input).map(([name, values]) => ({ series: name, values })),
      // ALERTS has every alert, so none can fire unnoticed.
      promql_expr_test: [
        {
          expr: 'count by (alertname) (ALERTS{alertstate="firing"})',
          eval_time: '2h',
          exp_samples: [...fired].map((name) => ({ labels: `{alertname="${name}"}`, value: 1 })),
        },
      ],
    },
  ];
  await writeFile(file, stringify({ rule_files: ['rules.yaml'], evaluation_interval: '1m', tests }));
  await run([promtool, 'test', 'rules', file], { cwd: dir, timeoutMs: 60_000 });
}

test('promtool accepts the rules', async () => {
  await run([promtool, 'check', 'rules', 'rules.yaml'], { cwd: dir, timeoutMs: 60_000 });
});

test('no alert fires while all is well', () => firing({}, []));

for (const { alert = '' } of alerts) {
  test(`${alert} fires for its fault, and no other alert does`, async () => {
    const fault = faults[alert];
    assert.ok(fault, `write down what makes ${alert} fire`);
    await firing(fault, [alert]);
  });
}

test('each alert has a section in the runbooks, and each section an alert', async () => {
  const page = await readFile(join(import.meta.dirname, '../../docs/runbooks.md'), 'utf8');
  const sections = [...page.matchAll(/^## (Moorage\w+)$/gm)].map(([, name = '']) => name);
  assert.deepEqual(sections.toSorted(), alerts.map(({ alert = '' }) => alert).toSorted());
});

test('alerts link to their runbooks, in the sources or where somebody serves them', async () => {
  assert.ok(
    alerts.every(
      ({ annotations = {}, alert = '' }) => annotations['runbook_url'] === `docs/runbooks.md#${alert.toLowerCase()}`,
    ),
  );
  const served = await render('prometheus.rules.enabled=true', 'prometheus.rules.runbooks=https://wiki.example.org/r');
  const { groups } = find(served, 'PrometheusRule', 'moorage')['spec'] as typeof spec;
  const first = groups.flatMap(({ rules }) => rules).find(({ alert }) => alert);
  assert.equal(first?.annotations?.['runbook_url'], 'https://wiki.example.org/r#mooragenodedown');
  assert.match(first?.annotations?.['summary'] ?? '', /^The agent of a node/);
});

test('the dashboard is what its source says; if not: npm run manifests', async () => {
  assert.equal(await readFile(dashboardPath, 'utf8'), dashboard());
  const { data } = find(objects, 'ConfigMap', 'moorage-dashboard') as unknown as { data: Record<string, string> };
  assert.deepEqual(JSON.parse(data['moorage.json'] ?? ''), JSON.parse(dashboard()));
});

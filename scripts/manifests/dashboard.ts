import { join } from 'node:path';
import { type DataSourceRef, LegendDisplayMode, VizLegendOptionsBuilder } from '@grafana/grafana-foundation-sdk/common';
import {
  DashboardBuilder,
  DashboardCursorSync,
  DatasourceVariableBuilder,
  QueryVariableBuilder,
  RowBuilder,
  ThresholdsConfigBuilder,
  ThresholdsMode,
  VariableRefresh,
} from '@grafana/grafana-foundation-sdk/dashboard';
import { DataqueryBuilder, PromQueryFormat } from '@grafana/grafana-foundation-sdk/prometheus';
import { PanelBuilder as StatBuilder } from '@grafana/grafana-foundation-sdk/stat';
import { PanelBuilder as TableBuilder } from '@grafana/grafana-foundation-sdk/table';
import { PanelBuilder as TimeseriesBuilder } from '@grafana/grafana-foundation-sdk/timeseries';

/** In the chart, which can only read its own files. */
export const dashboardPath: string = join(
  import.meta.dirname,
  ...['..', '..', 'deploy', 'helm', 'moorage', 'files', 'dashboard.json'],
);

const source: DataSourceRef = { type: 'prometheus', uid: '${datasource}' };
const onNode = 'node=~"$node",device_class=~"$device_class"';

interface Query {
  readonly expr: string;
  readonly legend: string;
}

interface Panel {
  readonly title: string;
  readonly description?: string;
  readonly unit: string;
  readonly queries: readonly Query[];
  /** Where a value becomes yellow, and red. */
  readonly warnAt?: number;
  readonly badAt?: number;
  readonly max?: number;
}

const overview: readonly Panel[] = [
  {
    title: 'Agents and controllers that answer',
    unit: 'none',
    queries: [{ expr: 'sum(up{job=~"(.*/)?moorage"})', legend: '' }],
  },
  {
    title: 'Volumes',
    unit: 'none',
    queries: [{ expr: `count(moorage_volume_size_bytes{${onNode}}) or vector(0)`, legend: '' }],
  },
  {
    title: 'Free space',
    unit: 'bytes',
    queries: [{ expr: `sum(topolvm_volumegroup_available_bytes{${onNode}})`, legend: '' }],
  },
  {
    title: 'Fullest pool',
    unit: 'percentunit',
    queries: [{ expr: `max(node_device_class:moorage_pool_used:ratio{${onNode}})`, legend: '' }],
    ...{ warnAt: 0.8, badAt: 0.95 },
  },
  {
    title: 'Orphans',
    description: 'kubectl moorage orphans lists them. Retained volumes count too.',
    unit: 'none',
    queries: [{ expr: 'sum(kind:moorage_orphans:sum)', legend: '' }],
  },
  {
    title: 'Objects that fail',
    description: 'Objects in a queue whose last attempt failed. They are retried.',
    unit: 'none',
    queries: [{ expr: 'sum(moorage_queue_keys{state="failing"})', legend: '' }],
    ...{ warnAt: 1, badAt: 10 },
  },
];

const rows: readonly { readonly title: string; readonly panels: readonly Panel[] }[] = [
  {
    title: 'Capacity',
    panels: [
      {
        title: 'Pool usage',
        unit: 'percentunit',
        queries: [
          { expr: `node_device_class:moorage_pool_used:ratio{${onNode}}`, legend: '{{node}} {{device_class}}' },
        ],
        ...{ warnAt: 0.8, badAt: 0.95, max: 1 },
      },
      {
        title: 'Free space in a day',
        description: 'If usage goes on as in the last 6 hours. Below zero: full.',
        unit: 'bytes',
        queries: [
          {
            expr: `node_device_class:moorage_pool_available_bytes:predict1d{${onNode}}`,
            legend: '{{node}} {{device_class}}',
          },
        ],
      },
      {
        title: 'Thin pool data',
        description: 'Writes fail when it is full.',
        unit: 'percent',
        queries: [{ expr: `topolvm_thinpool_data_percent{${onNode}}`, legend: '{{node}} {{device_class}}' }],
        ...{ warnAt: 70, badAt: 85, max: 100 },
      },
      {
        title: 'Thin pool metadata',
        description: 'Writes fail when it is full, even if there is room for data.',
        unit: 'percent',
        queries: [{ expr: `topolvm_thinpool_metadata_percent{${onNode}}`, legend: '{{node}} {{device_class}}' }],
        ...{ warnAt: 70, badAt: 80, max: 100 },
      },
      {
        title: 'What thin pools can still promise',
        unit: 'bytes',
        queries: [
          { expr: `topolvm_thinpool_overprovisioned_available{${onNode}}`, legend: '{{node}} {{device_class}}' },
        ],
      },
      {
        title: 'Orphans by kind',
        unit: 'none',
        queries: [{ expr: 'kind:moorage_orphans:sum', legend: '{{kind}}' }],
      },
    ],
  },
  {
    title: 'Operations',
    panels: [
      {
        title: 'Calls',
        unit: 'reqps',
        queries: [
          { expr: 'sum by (method, code) (service_method_code:moorage_calls:rate5m)', legend: '{{method}} {{code}}' },
        ],
      },
      {
        title: 'Duration of calls, 99th percentile',
        unit: 's',
        queries: [{ expr: 'service_method:moorage_call_seconds:p99_5m >= 0', legend: '{{method}}' }],
      },
      {
        title: 'Duration of changes on disks, 99th percentile',
        description: 'In the storage engine, including the wait for other operations.',
        unit: 's',
        queries: [
          {
            expr: 'device_class_operation:moorage_pool_operation_seconds:p99_5m >= 0',
            legend: '{{device_class}} {{operation}}',
          },
        ],
      },
      {
        title: 'LVM commands',
        description: 'By exec each costs a process: see MoorageLvmShellFails.',
        unit: 'ops',
        queries: [
          { expr: 'sum by (way) (rate(moorage_lvm_commands_total[5m]))', legend: '{{way}}' },
          { expr: 'sum(rate(moorage_lvm_shell_restarts_total[5m]))', legend: 'shells replaced' },
        ],
      },
    ],
  },
  {
    title: 'Processes',
    panels: [
      {
        title: 'Objects that wait, run and fail',
        unit: 'none',
        queries: [{ expr: 'sum by (queue, state) (moorage_queue_keys)', legend: '{{queue}} {{state}}' }],
      },
      {
        title: 'Silence of the API server',
        description: 'It sends something every minute.',
        unit: 's',
        queries: [{ expr: 'max by (pod, watch) (moorage_watch_last_event_age_seconds)', legend: '{{pod}} {{watch}}' }],
        ...{ warnAt: 120, badAt: 300 },
      },
      {
        title: 'Memory',
        unit: 'bytes',
        queries: [{ expr: 'process_resident_memory_bytes{job=~"(.*/)?moorage"}', legend: '{{pod}}' }],
      },
      {
        title: 'CPU',
        unit: 'percentunit',
        queries: [{ expr: 'rate(process_cpu_seconds_total{job=~"(.*/)?moorage"}[5m])', legend: '{{pod}}' }],
      },
    ],
  },
];

const fullestVolumes = `topk(20, node_claim:moorage_volume_used:ratio{${onNode}})`;

/** The dashboard for Grafana 10 and newer, as JSON. Its types are Grafana's: what Grafana does not know does not compile. */
export function dashboard(): string {
  const builder = new DashboardBuilder('Moorage')
    .uid('moorage')
    .description('Local volumes on LVM: capacity, operations, and the processes themselves. See docs/monitoring.md.')
    .tags(['moorage', 'storage'])
    .readonly()
    .refresh('1m')
    .time({ from: 'now-6h', to: 'now' })
    .tooltip(DashboardCursorSync.Crosshair)
    .withVariable(new DatasourceVariableBuilder('datasource').label('Data source').type('prometheus'))
    .withVariable(labelVariable('node', 'Node'))
    .withVariable(labelVariable('device_class', 'Device class'));
  for (const panel of overview) builder.withPanel(stat(panel));
  for (const { title, panels } of rows) {
    builder.withRow(new RowBuilder(title));
    for (const panel of panels) builder.withPanel(timeseries(panel));
  }
  builder.withRow(new RowBuilder('Volumes'));
  builder.withPanel(volumeTable());
  return `${JSON.stringify(builder.build(), undefined, 2)}\n`;
}

function labelVariable(name: string, label: string): QueryVariableBuilder {
  return new QueryVariableBuilder(name)
    .label(label)
    .datasource(source)
    .query(`label_values(topolvm_volumegroup_size_bytes, ${name})`)
    .refresh(VariableRefresh.OnTimeRangeChanged)
    .multi(true)
    .includeAll(true)
    .allValue('.*');
}

function thresholds({ warnAt, badAt }: Panel): ThresholdsConfigBuilder {
  const steps = [
    { value: null, color: 'green' },
    ...(warnAt === undefined ? [] : [{ value: warnAt, color: 'yellow' }]),
    ...(badAt === undefined ? [] : [{ value: badAt, color: 'red' }]),
  ];
  return new ThresholdsConfigBuilder().mode(ThresholdsMode.Absolute).steps(steps);
}

function stat(panel: Panel): StatBuilder {
  const builder = new StatBuilder()
    .title(panel.title)
    .datasource(source)
    .unit(panel.unit)
    .thresholds(thresholds(panel))
    .height(4)
    .span(4);
  if (panel.description) builder.description(panel.description);
  for (const { expr } of panel.queries) builder.withTarget(new DataqueryBuilder().expr(expr).instant());
  return builder;
}

function timeseries(panel: Panel): TimeseriesBuilder {
  const builder = new TimeseriesBuilder()
    .title(panel.title)
    .datasource(source)
    .unit(panel.unit)
    .thresholds(thresholds(panel))
    .min(0)
    .fillOpacity(5)
    .legend(new VizLegendOptionsBuilder().displayMode(LegendDisplayMode.List).showLegend(true))
    .height(8)
    .span(12);
  if (panel.max !== undefined) builder.max(panel.max);
  if (panel.description) builder.description(panel.description);
  for (const { expr, legend } of panel.queries) {
    builder.withTarget(new DataqueryBuilder().expr(expr).legendFormat(legend).range());
  }
  return builder;
}

function volumeTable(): TableBuilder {
  const hidden = { Time: true, job: true, instance: true, namespace: true, container: true, endpoint: true, pod: true };
  return new TableBuilder()
    .title('Fullest volumes')
    .datasource(source)
    .unit('percentunit')
    .height(10)
    .span(24)
    .withTarget(new DataqueryBuilder().expr(fullestVolumes).instant().format(PromQueryFormat.Table))
    .withTransformation({
      id: 'organize',
      options: {
        excludeByName: { ...hidden, __name__: true, volume: true },
        renameByName: { claim: 'Claim', node: 'Node', device_class: 'Device class', Value: 'Used' },
      },
    });
}

import type { Labels, Metric, Sample } from './metric.ts';

/** Prometheus' text format, which every version of it reads. */
export const contentType = 'text/plain; version=0.0.4; charset=utf-8';

export async function exposition(metrics: readonly Metric[]): Promise<string> {
  const told = await Promise.all(metrics.map(tell));
  return `${told.join('\n\n')}\n`;
}

async function tell(metric: Metric): Promise<string> {
  const { name, help, type } = metric;
  const samples = await metric.read();
  return [
    `# HELP ${name} ${escape(help)}`,
    `# TYPE ${name} ${type}`,
    ...samples.map((sample) => `${name}${line(sample)}`),
  ].join('\n');
}

function line({ suffix, labels = {}, value }: Sample): string {
  return `${suffix ?? ''}${labelsInBraces(labels)} ${number(value)}`;
}

function labelsInBraces(labels: Labels): string {
  const each = Object.entries(labels).map(([name, value]) => `${name}="${escape(value).replaceAll('"', '\\"')}"`);
  return each.length === 0 ? '' : `{${each.join(',')}}`;
}

function escape(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
}

function number(value: number): string {
  if (Number.isFinite(value) || Number.isNaN(value)) return String(value);
  return value > 0 ? '+Inf' : '-Inf';
}

import { Counter, Gauge, type Metric, Registry } from 'prom-client';

export type { Metric };

/** One value of a metric. Each value of a metric has different labels. */
export interface Sample<Label extends string = string> {
  readonly labels?: Readonly<Record<Label, string>>;
  readonly value: number;
}

/** A metric that is read at a scrape. Its name must never change: dashboards and alerts use it. */
interface Declaration<Label extends string> {
  readonly name: string;
  readonly help: string;
  readonly labelNames?: readonly Label[];
  /** The current values. */
  readonly read: () => readonly Sample<Label>[] | Promise<readonly Sample<Label>[]>;
}

export function gauge<Label extends string = never>({ read, ...declared }: Declaration<Label>): Gauge {
  return new Gauge({
    ...declared,
    registers: [],
    async collect() {
      const samples = await read();
      this.reset();
      if (!declared.labelNames) this.remove(); // the initial 0 of a metric without labels
      for (const { labels, value } of samples) this.set({ ...labels }, value);
    },
  });
}

export function counter<Label extends string = never>({ read, ...declared }: Declaration<Label>): Counter {
  return new Counter({
    ...declared,
    registers: [],
    async collect() {
      const samples = await read();
      this.reset();
      for (const { labels, value } of samples) this.inc({ ...labels }, value);
    },
  });
}

/** Prometheus' text format, which every version of Prometheus reads. */
export const contentType: string = Registry.PROMETHEUS_CONTENT_TYPE;

/** A new registry each time: metrics may be added after the server has started, and nothing is kept between scrapes. */
export function exposition(metrics: readonly Metric[]): Promise<string> {
  const registry = new Registry();
  for (const metric of metrics) registry.registerMetric(metric);
  return registry.metrics();
}

/** Of durations in seconds. Few, as each costs one number per label set: an answer from memory, one LVM command, a mkfs, an erasure. */
export const latencyBuckets: number[] = [0.005, 0.02, 0.1, 0.5, 2, 10, 60];

import { Counter, Gauge } from 'prom-client';

export type { Metric } from 'prom-client';

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

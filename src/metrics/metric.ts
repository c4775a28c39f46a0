import { Counter, Gauge } from 'prom-client';

export type { Metric } from 'prom-client';

/** One value of a metric. No two of a metric have the same labels. */
export interface Sample<Label extends string = string> {
  readonly labels?: Readonly<Record<Label, string>>;
  readonly value: number;
}

/** A metric that is read when somebody asks. Its name is for ever: people have dashboards and alerts on it. */
interface Declaration<Label extends string> {
  readonly name: string;
  readonly help: string;
  readonly labelNames?: readonly Label[];
  /** The values of this moment. */
  readonly read: () => readonly Sample<Label>[] | Promise<readonly Sample<Label>[]>;
}

export function gauge<Label extends string = never>({ read, ...declared }: Declaration<Label>): Gauge {
  return new Gauge({
    ...declared,
    registers: [],
    async collect() {
      const samples = await read();
      this.reset();
      if (!declared.labelNames) this.remove(); // the 0 that a metric without labels begins with
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

import type { Labels, Metric, Sample } from './metric.ts';

interface HistogramOptions {
  readonly name: string;
  readonly help: string;
  /** The largest value of each bucket, the smallest first. */
  readonly bounds: readonly number[];
}

/** What was observed with the same labels. */
interface Series {
  readonly labels: Labels;
  /** A bucket's count includes those of all buckets below it. */
  readonly buckets: readonly { readonly bound: number; count: number }[];
  count: number;
  sum: number;
}

/** How often values of which size were observed. */
export class Histogram implements Metric {
  readonly name: string;
  readonly help: string;
  readonly type = 'histogram';
  readonly #bounds: readonly number[];
  readonly #series = new Map<string, Series>();

  constructor({ name, help, bounds }: HistogramOptions) {
    this.name = name;
    this.help = help;
    this.#bounds = bounds;
  }

  observe(labels: Labels, value: number): void {
    const series = this.#of(labels);
    for (const bucket of series.buckets) if (value <= bucket.bound) bucket.count++;
    series.count++;
    series.sum += value;
  }

  read(): readonly Sample[] {
    return [...this.#series.values()].flatMap(samplesOf);
  }

  #of(labels: Labels): Series {
    const key = JSON.stringify(labels);
    const known = this.#series.get(key);
    if (known) return known;
    const series = { labels, buckets: this.#bounds.map((bound) => ({ bound, count: 0 })), count: 0, sum: 0 };
    this.#series.set(key, series);
    return series;
  }
}

function samplesOf({ labels, buckets, count, sum }: Series): readonly Sample[] {
  const bucket = (le: string, value: number): Sample => ({ suffix: '_bucket', labels: { le, ...labels }, value });
  return [
    ...buckets.map((its) => bucket(String(its.bound), its.count)),
    bucket('+Inf', count),
    { suffix: '_sum', labels, value: sum },
    { suffix: '_count', labels, value: count },
  ];
}

/** Statistics of a number of samples. */
export interface Statistics {
  readonly samples: number;
  readonly min: number;
  readonly median: number;
  readonly p95: number;
  readonly p99: number;
}

export function statisticsOf(samples: readonly number[]): Statistics {
  const sorted = samples.toSorted((a, b) => a - b);
  const at = (index: number) => sorted[Math.min(sorted.length - 1, index)] ?? Number.NaN;
  const middle = (sorted.length - 1) / 2;
  return {
    samples: sorted.length,
    min: round(at(0)),
    median: round((at(Math.floor(middle)) + at(Math.ceil(middle))) / 2),
    p95: round(at(Math.floor(0.95 * sorted.length))),
    p99: round(at(Math.floor(0.99 * sorted.length))),
  };
}

function round(value: number): number {
  return Number(value.toPrecision(4));
}

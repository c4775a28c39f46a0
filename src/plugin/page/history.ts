import type { Forecast, Sample } from './model.ts';

/** Enough for a line on the page; of more, every second one is kept. */
const mostSamples = 120;
/** Shorter than this says nothing about days. */
const shortestSpanMs = 10 * 60_000;
/** Further away, nobody needs to act on it, and it is a guess. */
const furthestMs = 30 * 86_400_000;

/** How pools were used since this process watches them. */
export class History {
  readonly #samples = new Map<string, readonly Sample[]>();

  add(pool: string, sample: Sample): void {
    const known = this.of(pool);
    const kept = known.length < mostSamples ? known : known.filter((_, i) => i % 2 === 0);
    this.#samples.set(pool, [...kept, sample]);
  }

  of(pool: string): readonly Sample[] {
    return this.#samples.get(pool) ?? [];
  }
}

/**
 * When space or metadata run out at the average rate of all samples, whichever is sooner. A pool reports only changes, so the
 * last sample holds until now. Undefined if it does not grow, or nothing can be concluded.
 */
export function forecastOf(samples: readonly Sample[], nowMs: number): Forecast | undefined {
  const [first, last] = [samples[0], samples.at(-1)];
  if (!first || !last) return undefined;
  const spanMs = nowMs - first.atMs;
  if (spanMs < shortestSpanMs) return undefined;
  const reachedAtMs = (before: number, now: number, limit: number) =>
    now > before ? nowMs + (Math.max(0, limit - now) * spanMs) / (now - before) : Number.POSITIVE_INFINITY;
  const candidates: readonly Forecast[] = [
    { of: 'space', fullAtMs: reachedAtMs(first.usedBytes, last.usedBytes, last.sizeBytes) },
    { of: 'metadata', fullAtMs: reachedAtMs(first.metadataPercent ?? 0, last.metadataPercent ?? 0, 100) },
  ];
  return candidates
    .filter(({ fullAtMs }) => fullAtMs - nowMs <= furthestMs)
    .toSorted((a, b) => a.fullAtMs - b.fullAtMs)[0];
}

import type { PagePool, Sample } from '../../../src/plugin/page/model.ts';
import type { Tone } from './health.tsx';
import { Icon } from './icons.tsx';
import { bytes, percent, span } from './words.ts';

type Usage = Pick<PagePool, 'sizeBytes' | 'usedBytes' | 'freeBytes' | 'spareBytes'>;

/** From 80 % on a pool deserves attention, from 95 % on action, as in the terminal. */
export function usageTone(share: number): Tone {
  if (share >= 95) return 'bad';
  return share >= 80 ? 'warning' : 'good';
}

/** How full something is: its colour has a shape beside it. */
export function Share({ of }: { readonly of: number }) {
  const tone = usageTone(of);
  return (
    <span class={`share ${tone}`}>
      {tone !== 'good' && <Icon name={tone === 'bad' ? 'bad' : 'warning'} size={12} />} {Math.floor(of)} %
    </span>
  );
}

/** Used, spare and free, of the whole. What is neither, such as metadata or an erasure in progress, has no colour. */
export function PoolBar({ pool, label }: { readonly pool: Usage; readonly label: string }) {
  const { sizeBytes, usedBytes, freeBytes = 0, spareBytes = 0 } = pool;
  if (!sizeBytes || usedBytes === undefined) {
    return <div class="bar unknown" role="img" aria-label={`${label}: unknown`} />;
  }
  const used = percent(usedBytes, sizeBytes);
  const spare = Math.min(percent(spareBytes, sizeBytes), 100 - used);
  const words = `${label}: ${Math.floor(used)} % used, ${bytes(freeBytes)} free of ${bytes(sizeBytes)}`;
  return (
    <div class={`bar ${usageTone(used)}`} role="img" aria-label={words} title={words}>
      <span class="used" style={{ width: `${used}%` }} />
      <span class="spare" style={{ width: `${spare}%` }} />
    </div>
  );
}

/** How much of a part is done or full; `label` names it for screen readers. */
export function Meter({ share, label, tone }: { readonly share: number; readonly label: string; readonly tone: Tone }) {
  return (
    <div
      class={`bar thin ${tone}`}
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.floor(share)}
    >
      <span class="used" style={{ width: `${Math.min(100, share)}%` }} />
    </div>
  );
}

export function ForecastNote({ pool, nowMs }: { readonly pool: Pick<PagePool, 'forecast'>; readonly nowMs: number }) {
  if (!pool.forecast) return null;
  const { of, fullAtMs } = pool.forecast;
  const left = span(Math.max(0, fullAtMs - nowMs) / 1000);
  const words = of === 'space' ? `full in about ${left}` : `metadata full in about ${left}`;
  return (
    <span class="forecast" title={words}>
      {words}
    </span>
  );
}

/** How a pool was used since `kubectl moorage ui` was started. */
export function Sparkline({ samples, nowMs }: { readonly samples: readonly Sample[]; readonly nowMs: number }) {
  const [first, last] = [samples[0], samples.at(-1)];
  if (!first || !last || samples.length < 2) {
    return <p class="muted small">Unchanged since kubectl moorage ui was started.</p>;
  }
  const [width, height] = [320, 48];
  const top = Math.max(...samples.map(({ usedBytes }) => usedBytes));
  const bottom = Math.min(...samples.map(({ usedBytes }) => usedBytes));
  const x = (atMs: number) => ((atMs - first.atMs) / Math.max(1, nowMs - first.atMs)) * width;
  const y = (used: number) => height - 3 - ((used - bottom) / Math.max(1, top - bottom)) * (height - 6);
  // A pool reports changes: between two of them it stays as it was.
  const steps = samples.map(
    ({ atMs, usedBytes }, i) => `${i === 0 ? 'M' : 'H'}${x(atMs)}${i === 0 ? ',' : 'V'}${y(usedBytes)}`,
  );
  const line = `${steps.join('')}H${width}`;
  const change = last.usedBytes - first.usedBytes;
  const words = `${change >= 0 ? '+' : '−'}${bytes(Math.abs(change))} in ${span((nowMs - first.atMs) / 1000)}`;
  return (
    <figure class="sparkline">
      <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={`Used: ${words}`}>
        <path class="area" d={`${line}V${height}H0Z`} />
        <path class="line" d={line} />
      </svg>
      <figcaption>{words}</figcaption>
    </figure>
  );
}

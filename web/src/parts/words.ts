export { age } from '../../../src/base/clock.ts';

import { formatBytes } from '../../../src/base/quantity.ts';

export function bytes(count: number): string {
  return formatBytes(BigInt(Math.round(count)));
}

export function percent(part: number, whole: number): number {
  return whole > 0 ? (part / whole) * 100 : 0;
}

/** `1 volume`, `20,000 volumes`. */
export function count(n: number, what: string): string {
  return `${n.toLocaleString('en')} ${what}${n === 1 ? '' : 's'}`;
}

/** For how long: `about 40 minutes`, `about 3 days`. */
export function span(seconds: number): string {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 5_400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h`;
  return `${Math.round(seconds / 86_400)} days`;
}

/** Texts that sort as people expect: `worker-2` before `worker-10`. Once per text, because comparing by locale is slow. */
export function naturalKey(text: string): string {
  return text.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(12, '0'));
}

export function clock(time: string): string {
  return new Date(time).toLocaleString(undefined, {
    ...{ month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit' },
    hourCycle: 'h23',
  });
}

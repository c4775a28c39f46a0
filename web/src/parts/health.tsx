import type { MovePhase } from '../../../src/api/volume-move.ts';
import type { PagePool, PageVolume } from '../../../src/plugin/page/model.ts';
import { Icon, type IconName } from './icons.tsx';

/** A colour, a shape and a word always say the same. */
export type Tone = 'good' | 'busy' | 'warning' | 'bad' | 'quiet';

const toneIcons: Readonly<Record<Tone, IconName>> = {
  good: 'good',
  busy: 'busy',
  warning: 'warning',
  bad: 'bad',
  quiet: 'event',
};

export const volumeTones: Readonly<Record<PageVolume['health'], Tone>> = {
  Healthy: 'good',
  Creating: 'busy',
  Growing: 'busy',
  Receiving: 'busy',
  Deleting: 'busy',
  Released: 'warning',
  Unclaimed: 'warning',
  Failed: 'bad',
  NodeGone: 'bad',
  Missing: 'bad',
};

export const poolTones: Readonly<Record<PagePool['health'], Tone>> = {
  Healthy: 'good',
  Degraded: 'warning',
  Unavailable: 'bad',
};

export function moveTone(phase: MovePhase): Tone {
  if (phase === 'Done') return 'good';
  return phase === 'Failed' || phase === 'Aborted' || phase === 'Aborting' ? 'bad' : 'busy';
}

export function Badge({ tone, children }: { readonly tone: Tone; readonly children: string }) {
  return (
    <span class={`badge ${tone}`}>
      <Icon name={toneIcons[tone]} size={13} />
      {children}
    </span>
  );
}

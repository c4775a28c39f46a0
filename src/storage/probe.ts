import type { Run } from '../base/exec.ts';

/** What the device says of itself. "Could not tell" is never "empty". */
export type Probe =
  | { readonly kind: 'empty' }
  | { readonly kind: 'found'; readonly filesystem: string; readonly uuid: string }
  | { readonly kind: 'unknown'; readonly reason: string };

export type ProbeDevice = (devicePath: string, signal: AbortSignal) => Promise<Probe>;

export function blkid(_run: Run): ProbeDevice {
  throw new Error('to come');
}

import { deviceSizeBytes } from '../base/device-number.ts';
import { CommandFailed, type Run } from '../base/exec.ts';

/** Whether every byte of a device is zero. "Unknown" is never "zero". */
export type Zeros =
  | { readonly kind: 'zero' }
  | { readonly kind: 'data' }
  | { readonly kind: 'unknown'; readonly reason: string };

export type ReadWholeDevice = (devicePath: string, signal: AbortSignal) => Promise<Zeros>;

/** A slow disk reads this much well within the timeout; a hung one is noticed. */
const atOnceBytes = 4n * 1024n ** 3n;
const timeoutMs = 600_000;
const differs = 1;

/**
 * Reads all of a device, up to its first byte that is not zero: the proof that somebody else's device holds no data, which
 * a probe for signatures cannot give. It takes as long as the disk takes to read.
 */
export function allZero(run: Run): ReadWholeDevice {
  return async (devicePath, signal) => {
    const sizeBytes = await deviceSizeBytes(devicePath);
    if (!sizeBytes) return { kind: 'unknown', reason: `the size of ${devicePath} is unknown` };
    for (let at = 0n; at < sizeBytes; at += atOnceBytes) {
      const bytes = at + atOnceBytes < sizeBytes ? atOnceBytes : sizeBytes - at;
      const range = [`--ignore-initial=${at}:0`, `--bytes=${bytes}`];
      try {
        await run(['cmp', ...range, devicePath, '/dev/zero'], { timeoutMs, signal });
      } catch (error) {
        if (!(error instanceof CommandFailed)) throw error;
        // At an unexpected end of the device it exits alike, but says so on standard error.
        const hasData = error.exitCode === differs && error.stdout !== '' && error.stderr === '';
        return hasData ? { kind: 'data' } : { kind: 'unknown', reason: error.message };
      }
    }
    return { kind: 'zero' };
  };
}

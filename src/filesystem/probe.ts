import { open } from 'node:fs/promises';
import { messageOf } from '../base/errors.ts';
import { CommandFailed, type Run } from '../base/exec.ts';

/** What the device contains. "Unknown" is never "empty". */
export type Probe =
  | { readonly kind: 'empty' }
  | { readonly kind: 'found'; readonly filesystem: string; readonly uuid: string }
  | { readonly kind: 'unknown'; readonly reason: string };

export type ProbeDevice = (devicePath: string, signal: AbortSignal) => Promise<Probe>;

const timeoutMs = 30_000;
const nothingFound = 2;
/** New volumes are zeroed here, and most raw users start writing here. */
const headBytes = 4096;

/**
 * If a read fails, for example of a RAID signature at the end of the device, blkid exits silently as if it had found
 * nothing. So everything that it may read is read first: at most 4.1 MiB at the head and 1.6 MiB at the end. The device
 * stays open until blkid is done, so that the data stays cached and blkid reads the same.
 */
const readThenProbe = [
  'exec 3<"$1"',
  'head --bytes=8M "$1" >/dev/null',
  'tail --bytes=2M "$1" >/dev/null',
  'exec blkid --probe --output export "$1"',
].join(' && ');

/** Reads the device itself, never blkid's cache. */
export function blkid(run: Run): ProbeDevice {
  return async (devicePath, signal) => {
    try {
      const { stdout } = await run(['sh', '-c', readThenProbe, 'probe', devicePath], { timeoutMs, signal });
      return parseBlkid(stdout);
    } catch (error) {
      if (!(error instanceof CommandFailed)) throw error;
      const foundNothing = error.exitCode === nothingFound && error.stdout === '' && error.stderr === '';
      if (!foundNothing) return { kind: 'unknown', reason: error.message }; // with an error message it has not read everything
      return headOf(devicePath);
    }
  };
}

export function parseBlkid(output: string): Probe {
  const facts = new Map(
    output
      .split('\n')
      .filter((line) => line.includes('='))
      .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  );
  const found = facts.get('TYPE') ?? facts.get('PTTYPE');
  if (!found) return { kind: 'unknown', reason: `blkid found signatures but no type: ${output.trim()}` };
  return { kind: 'found', filesystem: found, uuid: facts.get('UUID') ?? facts.get('PTUUID') ?? '' };
}

/** Empty only if it can be read and holds only zeros. */
async function headOf(devicePath: string): Promise<Probe> {
  try {
    await using device = await open(devicePath, 'r');
    const { buffer, bytesRead } = await device.read(Buffer.alloc(headBytes), 0, headBytes, 0);
    if (bytesRead < headBytes)
      return { kind: 'unknown', reason: `only ${bytesRead} bytes of ${devicePath} can be read` };
    if (buffer.some((byte) => byte !== 0))
      return { kind: 'unknown', reason: `${devicePath} holds data of unknown type` };
    return { kind: 'empty' };
  } catch (error) {
    return { kind: 'unknown', reason: messageOf(error) };
  }
}

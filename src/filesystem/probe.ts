import { open } from 'node:fs/promises';
import { messageOf } from '../base/errors.ts';
import { CommandFailed, type Run } from '../base/exec.ts';

/** What the device says of itself. "Could not tell" is never "empty". */
export type Probe =
  | { readonly kind: 'empty' }
  | { readonly kind: 'found'; readonly filesystem: string; readonly uuid: string }
  | { readonly kind: 'unknown'; readonly reason: string };

export type ProbeDevice = (devicePath: string, signal: AbortSignal) => Promise<Probe>;

const timeoutMs = 30_000;
const nothingFound = 2;
/** Where new volumes are zeroed, and where most who write to a raw device begin. */
const headBytes = 4096;

/**
 * blkid gives up without a word, as if it had found nothing, when something that it wants to see cannot be read, be it
 * the mark of a RAID at the end of the device. So all that it may read is read first: no more than 4.1 MiB at the head
 * and 1.6 MiB at the end. The device stays open until blkid is done, so that this stays in memory and blkid gets the same.
 */
const readThenProbe = [
  'exec 3<"$1"',
  'head --bytes=8M "$1" >/dev/null',
  'tail --bytes=2M "$1" >/dev/null',
  'exec blkid --probe --output export "$1"',
].join(' && ');

/** Looks at the device itself, never at what somebody remembers of it. */
export function blkid(run: Run): ProbeDevice {
  return async (devicePath, signal) => {
    try {
      const { stdout } = await run(['sh', '-c', readThenProbe, 'probe', devicePath], { timeoutMs, signal });
      return parseBlkid(stdout);
    } catch (error) {
      if (!(error instanceof CommandFailed)) throw error;
      const foundNothing = error.exitCode === nothingFound && error.stdout === '' && error.stderr === '';
      if (!foundNothing) return { kind: 'unknown', reason: error.message }; // whoever complains has not looked
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
  if (!found) return { kind: 'unknown', reason: `blkid found something that it cannot name: ${output.trim()}` };
  return { kind: 'found', filesystem: found, uuid: facts.get('UUID') ?? facts.get('PTUUID') ?? '' };
}

/** Empty only if it can be read and nothing is written there. */
async function headOf(devicePath: string): Promise<Probe> {
  try {
    await using device = await open(devicePath, 'r');
    const { buffer, bytesRead } = await device.read(Buffer.alloc(headBytes), 0, headBytes, 0);
    if (bytesRead < headBytes)
      return { kind: 'unknown', reason: `only ${bytesRead} bytes can be read of ${devicePath}` };
    if (buffer.some((byte) => byte !== 0))
      return { kind: 'unknown', reason: `${devicePath} holds data of an unknown kind` };
    return { kind: 'empty' };
  } catch (error) {
    return { kind: 'unknown', reason: messageOf(error) };
  }
}

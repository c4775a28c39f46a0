import { type BigIntStats, constants } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import * as v from 'valibot';
import { MoorageError, messageOf } from '../../base/errors.ts';
import { CommandFailed, type Run } from '../../base/exec.ts';
import { deviceNumber } from '../device-number.ts';

const timeoutMs = 30_000;

const listSchema = v.object({
  loopdevices: v.array(v.object({ name: v.string(), 'back-ino': v.number(), 'back-maj:min': v.string() })),
});

/** Files as block devices. A file is known by device and inode, as its path may differ between mount namespaces. */
export class LoopDevices {
  readonly #run: Run;

  constructor(run: Run) {
    this.#run = run;
  }

  /** The loop device that each of the files is attached to, of those that are attached at all; one command for all. */
  async find(files: readonly string[], signal: AbortSignal): Promise<Map<string, string>> {
    const { stdout } = await this.#run(['losetup', '--list', '--json', '--output', 'NAME,BACK-INO,BACK-MAJ:MIN'], {
      timeoutMs,
      signal,
    });
    const devices = new Map<string, string>();
    if (stdout.trim() === '') return devices; // some versions print nothing when there are none
    const { loopdevices } = parseList(stdout);
    const byIdentity = new Map(
      loopdevices.map((loop) => [`${loop['back-maj:min'].trim()} ${loop['back-ino']}`, loop.name]),
    );
    for (const file of files) {
      const device = byIdentity.get(identityOf(await stat(file, { bigint: true })));
      if (device) devices.set(file, device);
    }
    return devices;
  }

  /** Direct where the kernel can, so that data is not cached twice and a flush reaches the disk. */
  async attach(file: string, { readOnly }: { readonly readOnly: boolean }, signal: AbortSignal): Promise<string> {
    const access = readOnly ? ['--read-only'] : [];
    const { stdout } = await this.#run(['losetup', '--find', '--show', ...access, file], { timeoutMs, signal });
    const device = stdout.trim();
    try {
      await this.#run(['losetup', '--direct-io=on', device], { timeoutMs, signal });
    } catch (error) {
      if (!(error instanceof CommandFailed)) throw error; // refused, it works through the cache: slower, but right
    }
    return device;
  }

  /** The device follows its file, which has grown. */
  async updateSize(device: string, signal: AbortSignal): Promise<void> {
    await this.#run(['losetup', '--set-capacity', device], { timeoutMs, signal });
  }

  /** The kernel would only postpone it while the device is open, so whoever relies on it must look again. */
  async detach(device: string, signal: AbortSignal): Promise<void> {
    await this.#run(['losetup', '--detach', device], { timeoutMs, signal });
  }

  /** Mounted, or held by somebody who wants it alone. */
  async isHeld(device: string): Promise<boolean> {
    try {
      await using _ = await open(device, constants.O_RDONLY | constants.O_EXCL);
      return false;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EBUSY') return true;
      throw error;
    }
  }
}

/** losetup answered something that we do not understand. */
export class UnreadableLoopDevices extends MoorageError {
  readonly code = 'Internal';

  constructor(cause: unknown) {
    super(`losetup --list cannot be understood (${messageOf(cause)}); check that util-linux is 2.29 or later`, {
      cause,
    });
  }
}

export function parseList(json: string): v.InferOutput<typeof listSchema> {
  try {
    return v.parse(listSchema, JSON.parse(json));
  } catch (error) {
    throw new UnreadableLoopDevices(error);
  }
}

/** As losetup shows it: `major:minor inode`. */
export function identityOf({ dev, ino }: Pick<BigIntStats, 'dev' | 'ino'>): string {
  return `${deviceNumber(dev)} ${ino}`;
}

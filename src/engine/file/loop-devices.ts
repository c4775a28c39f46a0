import { type BigIntStats, close, constants, fsync, open as openFile } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { promisify } from 'node:util';
import * as v from 'valibot';
import { deviceNumber } from '../../base/device-number.ts';
import { MoorageError, messageOf } from '../../base/errors.ts';
import { CommandFailed, type Run } from '../../base/exec.ts';

const timeoutMs = 30_000;
// File descriptors, as FileHandles are closed when they are garbage collected.
const openNumber = promisify(openFile);
const syncNumber = promisify(fsync);
const closeNumber = promisify(close);

/** Without its numbers, a device was detached while it was listed. */
const detachedSchema = v.object({ name: v.string(), 'back-ino': v.null(), 'back-maj:min': v.null() });
const attachedSchema = v.object({ name: v.string(), 'back-ino': v.number(), 'back-maj:min': v.string() });
const listSchema = v.object({ loopdevices: v.array(v.union([attachedSchema, detachedSchema])) });
type Attached = v.InferOutput<typeof attachedSchema>;

/** Files as block devices. Device and inode identify a file, as its path may differ between mount namespaces. */
export class LoopDevices {
  readonly #run: Run;
  readonly #held = new Map<string, number>();

  constructor(run: Run) {
    this.#run = run;
  }

  /** The loop devices of those files that are attached; one command for all. */
  async find(files: readonly string[], signal: AbortSignal): Promise<Map<string, string>> {
    const byIdentity = new Map<string, string>();
    for (const { name, identity } of await this.#list(signal)) {
      if (!byIdentity.has(identity) || this.#held.has(name)) byIdentity.set(identity, name);
    }
    const devices = new Map<string, string>();
    for (const file of files) {
      const device = byIdentity.get(identityOf(await stat(file, { bigint: true })));
      if (device) devices.set(file, device);
    }
    return devices;
  }

  /** Keeps the device open, so that the kernel attaches no other file to it, even if somebody detaches it. */
  async hold(device: string, file: string, signal: AbortSignal): Promise<void> {
    if (this.#held.has(device)) return;
    this.#held.set(device, await openNumber(device, 'r'));
    try {
      const wanted = identityOf(await stat(file, { bigint: true }));
      const isThere = (await this.#list(signal)).some(({ name, identity }) => name === device && identity === wanted);
      if (!isThere) throw new LoopDeviceLost(device, file);
    } catch (error) {
      await this.release(device);
      throw error;
    }
  }

  async release(device: string): Promise<void> {
    const held = this.#held.get(device);
    this.#held.delete(device);
    if (held !== undefined) await closeNumber(held);
  }

  async releaseAll(): Promise<void> {
    await Promise.all([...this.#held.keys()].map((device) => this.release(device)));
  }

  /** Writes cached data to the file. As we hold the device open, no other process's close does that. */
  async flush(device: string): Promise<void> {
    const held = this.#held.get(device);
    if (held !== undefined) await syncNumber(held);
  }

  /** With direct I/O where possible, so that data is not cached twice and a flush reaches the disk. */
  async attach(file: string, { readOnly }: { readonly readOnly: boolean }, signal: AbortSignal): Promise<string> {
    const access = readOnly ? ['--read-only'] : [];
    const { stdout } = await this.#run(['losetup', '--find', '--show', ...access, file], { timeoutMs, signal });
    const device = stdout.trim();
    try {
      await this.#run(['losetup', '--direct-io=on', device], { timeoutMs, signal });
    } catch (error) {
      if (!(error instanceof CommandFailed)) throw error; // without direct I/O it is slower, but correct
    }
    return device;
  }

  /** Makes the device as large as its file, which has grown. */
  async updateSize(device: string, signal: AbortSignal): Promise<void> {
    await this.#run(['losetup', '--set-capacity', device], { timeoutMs, signal });
  }

  /** While others have the device open the kernel only postpones this, so callers must check afterwards. */
  async detach(device: string, signal: AbortSignal): Promise<void> {
    await this.#run(['losetup', '--detach', device], { timeoutMs, signal });
    await this.release(device);
  }

  /** Whether it is mounted, or opened exclusively by another process. */
  async isHeld(device: string): Promise<boolean> {
    try {
      await using _ = await open(device, constants.O_RDONLY | constants.O_EXCL);
      return false;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EBUSY') return true;
      throw error;
    }
  }

  async #list(signal: AbortSignal): Promise<{ readonly name: string; readonly identity: string }[]> {
    const words = ['losetup', '--list', '--json', '--output', 'NAME,BACK-INO,BACK-MAJ:MIN'] as const;
    const { stdout } = await this.#run(words, { timeoutMs, signal });
    if (stdout.trim() === '') return []; // some versions print nothing when there are none
    return parseList(stdout).map((loop) => ({
      name: loop.name,
      identity: `${loop['back-maj:min'].trim()} ${loop['back-ino']}`,
    }));
  }
}

/** Another process detached it right after we attached it. */
export class LoopDeviceLost extends MoorageError {
  readonly code = 'Unavailable';

  constructor(device: string, file: string) {
    super(`${device} was detached from ${file} by another process; retry the request`);
  }
}

/** The output of losetup cannot be parsed. */
export class UnreadableLoopDevices extends MoorageError {
  readonly code = 'Internal';

  constructor(cause: unknown) {
    super(`cannot parse the output of losetup --list (${messageOf(cause)}); check that util-linux is 2.29 or later`, {
      cause,
    });
  }
}

export function parseList(json: string): readonly Attached[] {
  try {
    const { loopdevices } = v.parse(listSchema, JSON.parse(json));
    return loopdevices.filter((loop): loop is Attached => loop['back-ino'] !== null);
  } catch (error) {
    throw new UnreadableLoopDevices(error);
  }
}

/** As losetup shows it: `major:minor inode`. */
export function identityOf({ dev, ino }: Pick<BigIntStats, 'dev' | 'ino'>): string {
  return `${deviceNumber(dev)} ${ino}`;
}

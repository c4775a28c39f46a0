import { constants } from 'node:fs';
import { readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { blockDeviceAt } from '../../base/device-number.ts';
import { replaceFile, syncDirectory } from '../../base/durable.ts';
import { MoorageError } from '../../base/errors.ts';
import { CommandFailed, type Run } from '../../base/exec.ts';
import { exists } from '../../base/exists.ts';
import { KeyedLock } from '../../base/keyed-lock.ts';
import { parseMountInfo } from '../../base/mountinfo.ts';
import { MountConflict, type MountRequest, NotEmpty, removeMountPoint } from '../../filesystem/mounts.ts';
import { deviceOf, isWrittenByMoorage, mountUnit, mountUnitName, unmountedUnit } from './systemd-units.ts';

/** The node's root directory, and how to run a command in it, from the agent's container or on the node itself. */
const root = '/proc/1/root';
const onNode = ['nsenter', '-t', '1', '-m', '--'] as const;

const unitsDir = '/etc/systemd/system';
const wantsDir = join(unitsDir, 'multi-user.target.wants');

const timeoutMs = 60_000;
/** systemd itself waits 90 s for a device, and then as long for the mount. */
const startTimeoutMs = 200_000;

export class SystemdUnavailable extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor() {
    super(
      'the first process of this node is not systemd, or the agent cannot see it: give its pod hostPID, or let the agent mount volumes itself',
    );
  }
}

/** The mount point has a unit that Moorage did not write. */
export class ForeignUnit extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(mountPoint: string, { path, device }: Pick<FoundUnit, 'path' | 'device'>) {
    super(
      `${path} mounts ${device || 'an unknown device'} at ${mountPoint} and was not written by Moorage; use another path`,
    );
  }
}

export class MountUnitFailed extends MoorageError {
  readonly code = 'Internal';

  constructor({ source, target }: MountRequest, unit: string, reason: string, cause: unknown) {
    super(`cannot mount ${source} at ${target}: ${reason}; see journalctl -u '${unit}' on the node`, { cause });
  }
}

export class MountUnitBusy extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(mountPoint: string, reason: string, cause: unknown) {
    super(`cannot unmount ${mountPoint}: ${reason}; stop what uses it`, { cause });
  }
}

/**
 * Mounts that belong to the node's systemd: they outlive the agent, and after a reboot they are there before the kubelet
 * starts. While a volume is not mounted, its mount point does not exist. Every method can be retried after a crash and
 * ends in the same state. Units that Moorage did not write are never changed, except one for the same device and mount
 * point, such as that of k8s-local-pv, which is replaced.
 *
 * The agent uses the node's own systemctl, with nsenter, and its files through /proc/1/root. A privileged container with
 * hostPID needs no more: no directory of the node, no systemctl in the image that fits every node's systemd, and no right that
 * running the node's LVM in the same way does not need. systemd's own socket would do without hostPID, but gives the same
 * power over the node.
 *
 * The node needs udev, as every Debian has it: systemd waits for the device until udev and LVM's rules have activated it.
 */
export class SystemdMounts {
  readonly #run: Run;
  readonly #writing = new KeyedLock();

  constructor({ run }: { readonly run: Run }) {
    this.#run = run;
  }

  /** Mounts a volume, now and at each boot. New options of a mounted volume count from the next mount on. */
  async ensure(request: MountRequest, signal: AbortSignal): Promise<void> {
    const { source, target } = request;
    await refuseWithoutSystemd();
    await refuseWhatIsThere(request);
    const found = await this.#find(target, signal);
    if (found.isForeign && !(await isSameDevice(found.device, source))) throw new ForeignUnit(target, found);

    const changes = [
      await this.#write(unmountedUnit.name, unmountedUnit.text, signal),
      await this.#write(found.name, mountUnit(request), signal),
    ];
    const isCurrent = !changes.includes(true) && !found.needsReload;
    if (!isCurrent || !found.isEnabled) await this.#systemctl(['enable', '--', found.name], signal); // and reads all units again
    for (const directory of [wantsDir, unitsDir]) await syncDirectory(join(root, directory));
    if (found.activeState !== 'active') await this.#start(found.name, request, signal);
  }

  /** Unmounts a volume and removes its unit and its mount point. Does nothing if there are none. */
  async remove(mountPoint: string, signal: AbortSignal): Promise<void> {
    await refuseWithoutSystemd();
    const found = await this.#find(mountPoint, signal);
    if (found.isForeign) throw new ForeignUnit(mountPoint, found);

    if (found.isLoaded) await this.#stop(found.name, mountPoint, signal);
    if (found.hasFile) {
      await this.#systemctl(['disable', '--no-reload', '--', found.name], signal);
      await rm(pathOf(found.name));
      await syncDirectory(join(root, unitsDir));
    }
    const left = await this.#find(mountPoint, signal);
    if (left.needsReload) await this.#systemctl(['daemon-reload'], signal);
    if (left.activeState === 'failed') await this.#systemctl(['reset-failed', '--', left.name], signal);
    await refuseFiles(mountPoint);
    await removeMountPoint(join(root, mountPoint));
  }

  async #find(mountPoint: string, signal: AbortSignal): Promise<FoundUnit> {
    const name = mountUnitName(mountPoint);
    const text = await readUnit(name);
    const properties = 'LoadState,ActiveState,UnitFileState,NeedDaemonReload,FragmentPath,What';
    const { stdout } = await this.#systemctl(['show', `--property=${properties}`, '--', name], signal);
    const valueOf = (property: string) => new RegExp(`^${property}=(.*)$`, 'm').exec(stdout)?.[1] ?? '';
    const path = join(unitsDir, name);
    const isElsewhere = !['', path].includes(valueOf('FragmentPath'));
    return {
      name,
      hasFile: text !== undefined,
      ...(text === undefined && isElsewhere
        ? { isForeign: true, path: valueOf('FragmentPath'), device: valueOf('What') }
        : { isForeign: text !== undefined && !isWrittenByMoorage(text), path, device: text && deviceOf(text) }),
      isLoaded: valueOf('LoadState') !== 'not-found',
      isEnabled: valueOf('UnitFileState') === 'enabled',
      needsReload: valueOf('NeedDaemonReload') === 'yes',
      activeState: valueOf('ActiveState'),
    };
  }

  async #start(unit: string, request: MountRequest, signal: AbortSignal): Promise<void> {
    try {
      await this.#run([...onNode, 'systemctl', 'start', '--', unit], { timeoutMs: startTimeoutMs, signal });
    } catch (error) {
      if (!(error instanceof CommandFailed)) throw error;
      const isMissing = error.stderr.includes('dependency job');
      const reason = isMissing ? 'its device did not appear' : await this.#lastWords('mount', unit, error, signal);
      throw new MountUnitFailed(request, unit, reason, error);
    }
  }

  async #stop(unit: string, mountPoint: string, signal: AbortSignal): Promise<void> {
    try {
      await this.#systemctl(['stop', '--', unit], signal);
    } catch (error) {
      if (!(error instanceof CommandFailed)) throw error;
      throw new MountUnitBusy(mountPoint, await this.#lastWords('umount', unit, error, signal), error);
    }
  }

  /** What the program that systemd started for the unit printed last: systemctl only reports that it failed. */
  async #lastWords(program: string, unit: string, error: CommandFailed, signal: AbortSignal): Promise<string> {
    const journalctl = (...words: string[]) => this.#run([...onNode, 'journalctl', ...words], { timeoutMs, signal });
    await journalctl('--sync'); // otherwise its words may not have arrived yet
    const { stdout } = await journalctl('--boot', '--quiet', '--output=cat', '--lines=20', `--unit=${unit}`);
    const printed = stdout.split('\n').findLast((line) => line.startsWith(`${program}: `));
    return (printed ?? error.stderr.trim()).replace(/\.$/, '');
  }

  /** Whether the file was different before. Several volumes at once write the one that they share. */
  async #write(unit: string, text: string, signal: AbortSignal): Promise<boolean> {
    return this.#writing.run(unit, signal, async () => {
      if ((await readUnit(unit)) === text) return false;
      await replaceFile(pathOf(unit), text, 0o644);
      return true;
    });
  }

  async #systemctl(words: readonly string[], signal: AbortSignal): ReturnType<Run> {
    return this.#run([...onNode, 'systemctl', ...words], { timeoutMs, signal });
  }
}

/** The unit of a mount point: its file, and what systemd knows, which may be older. */
interface FoundUnit {
  readonly name: string;
  /** Whether it has a file where Moorage writes its own. */
  readonly hasFile: boolean;
  /** Whether somebody else wrote its file, here or for example for /etc/fstab. */
  readonly isForeign: boolean;
  readonly path: string;
  readonly device: string | undefined;
  readonly isLoaded: boolean;
  readonly isEnabled: boolean;
  readonly needsReload: boolean;
  readonly activeState: string;
}

async function refuseWithoutSystemd(): Promise<void> {
  if (!(await exists(join(root, 'run/systemd/system')))) throw new SystemdUnavailable();
}

/** The mount would hide another volume, or files that somebody wrote to the disk below while nothing was mounted. */
async function refuseWhatIsThere({ source, target }: MountRequest): Promise<void> {
  const mounts = parseMountInfo(await readFile('/proc/1/mountinfo', 'utf8'));
  const present = mounts.findLast((mount) => mount.target === target);
  if (!present) await refuseFiles(target);
  else if (!(await isSameDevice(present.source, source))) throw new MountConflict(target, source, present.source);
}

async function refuseFiles(directory: string): Promise<void> {
  const path = join(root, directory);
  if ((await exists(path)) && (await readdir(path)).length > 0) throw new NotEmpty(directory);
}

/** Equal paths are the same device even while it is missing. */
async function isSameDevice(one: string | undefined, other: string): Promise<boolean> {
  if (one === other || one === undefined) return one === other;
  const number = await blockDeviceAt(one);
  return number !== undefined && number === (await blockDeviceAt(other));
}

function pathOf(unit: string): string {
  return join(root, unitsDir, unit);
}

/** Undefined if there is none. A link leads to a file of somebody else, or to nowhere in the agent's container. */
async function readUnit(unit: string): Promise<string | undefined> {
  try {
    return await readFile(pathOf(unit), { encoding: 'utf8', flag: constants.O_RDONLY | constants.O_NOFOLLOW });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    if (code === 'ELOOP') return '';
    throw error;
  }
}

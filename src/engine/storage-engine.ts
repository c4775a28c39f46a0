import { isDeepStrictEqual } from 'node:util';
import { abortable } from '../base/abortable.ts';
import type { Clock } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import type { Run } from '../base/exec.ts';
import type { Log } from '../base/log.ts';
import { ConfigFile } from './config/config-file.ts';
import type { DeviceClass, StorageConfig } from './config/device-classes.ts';
import { noDeviceClasses } from './config/device-classes-yaml.ts';
import { ConfiguredPools } from './configured-pools.ts';
import { EngineLocks } from './engine-locks.ts';
import { Eraser } from './erase/eraser.ts';
import { Erasures } from './erase/erasures.ts';
import { FilePool } from './file/file-pool.ts';
import type { LvmCounts } from './lvm/lvm.ts';
import { LvmPool } from './lvm/lvm-pool.ts';
import { allVolumesArguments, parseAllVolumes } from './lvm/report.ts';
import { rootOf } from './lvm/shell-settings.ts';
import { VolumeGroups } from './lvm/volume-groups.ts';
import { checkVolumeGroup } from './names-and-tags.ts';
import { type OnDone, observed } from './observed-pool.ts';
import type { OpenPool } from './pool.ts';
import type { Pools } from './pools.ts';
import { UnservedVolumes } from './unserved-volumes.ts';

/** Returns the output of a command that reads no disks. */
type AskLvm = (subcommand: string, signal: AbortSignal) => Promise<string>;
const quickMs = 10_000;
/** For a command that reads all disks. */
const patientMs = 60_000;

export interface StorageEngineOptions extends StorageEngineCollaborators {
  /** Empty for no device classes: then only volume groups are served. */
  readonly configFile: string;
}

export interface StorageEngineCollaborators {
  /** On the node's own disk: state that must survive reboots and is not on the disks of volumes. */
  readonly stateDirectory: string;
  readonly run: Run;
  /** The environment that LVM commands inherit. */
  readonly env: NodeJS.ProcessEnv;
  /** Called after every change of a pool. */
  readonly onDone?: OnDone;
  readonly clock: Clock;
  readonly log: Log;
}

export interface LvmAbilities {
  readonly version?: string;
  readonly segmentTypes: readonly string[];
}

/** The pools of this node according to its configuration, which may change while they are served. */
export class StorageEngine {
  readonly #file: ConfigFile | undefined;
  readonly #configured: ConfiguredPools;
  readonly #groups: VolumeGroups;
  readonly #unserved: UnservedVolumes;
  readonly #abort = new AbortController();

  readonly #askLvm: AskLvm;

  private constructor(parts: {
    readonly file: ConfigFile | undefined;
    readonly configured: ConfiguredPools;
    readonly groups: VolumeGroups;
    readonly unserved: UnservedVolumes;
    readonly askLvm: AskLvm;
  }) {
    this.#file = parts.file;
    this.#configured = parts.configured;
    this.#groups = parts.groups;
    this.#unserved = parts.unserved;
    this.#askLvm = parts.askLvm;
  }

  /** Fails if the configuration is invalid; waits in the background for pools that do not exist yet. */
  static async start(options: StorageEngineOptions, signal: AbortSignal): Promise<StorageEngine> {
    const { configFile, clock, log } = options;
    if (!configFile) return StorageEngine.startWith(noDeviceClasses, options, signal);
    const { file, config } = await ConfigFile.open({ path: configFile, clock, log });
    const engine = await StorageEngine.#open(config, file, options, signal);
    file.onChange((changed) => void engine.#apply(config, changed, log));
    return engine;
  }

  /** Like `start`, with a fixed configuration. */
  static startWith(
    config: StorageConfig,
    collaborators: StorageEngineCollaborators,
    signal: AbortSignal,
  ): Promise<StorageEngine> {
    return StorageEngine.#open(config, undefined, collaborators, signal);
  }

  static async #open(
    config: StorageConfig,
    file: ConfigFile | undefined,
    collaborators: StorageEngineCollaborators,
    signal: AbortSignal,
  ): Promise<StorageEngine> {
    const groups = new VolumeGroups({ ...collaborators, command: config.lvmCommand });
    const open = new EngineLocks(rootOf(config.lvmCommand)).guard(poolOpener({ ...collaborators, groups }));
    const configured = new ConfiguredPools({
      ...collaborators,
      open: collaborators.onDone ? observed(open, collaborators.clock, collaborators.onDone) : open,
    });
    groups.onUnknownGroup(() => configured.lookAgain()); // a volume group may just have been created
    const deviceClasses = () => configured.deviceClasses();
    const { run, env } = collaborators;
    const lvm = async (words: readonly string[], timeoutMs: number, signal: AbortSignal) =>
      (await run([...config.lvmCommand, ...words], { timeoutMs, env, signal })).stdout;
    const askLvm: AskLvm = (subcommand, signal) => lvm([subcommand], quickMs, signal);
    const allVolumes = async (signal: AbortSignal) =>
      usesLvm(deviceClasses()) ? parseAllVolumes(await lvm(allVolumesArguments, patientMs, signal)) : [];
    const { pools } = configured;
    const unserved = new UnservedVolumes({ ...collaborators, allVolumes, deviceClasses, pools });
    const engine = new StorageEngine({ file, configured, groups, unserved, askLvm });
    try {
      await configured.apply(config, signal);
      unserved.lookLater();
      return engine;
    } catch (error) {
      await engine.stop();
      throw error;
    }
  }

  /** The configured classes. */
  get pools(): Pools {
    return this.#configured.pools;
  }

  /** Also the volume groups that are served without a class. */
  get allPools(): Pools {
    return this.#configured.allPools;
  }

  /**
   * Serves these volume groups, each by its configured thick class, or without one by a class of its own in `allPools`.
   * Groups of an earlier call that are not named again are no longer served, unless they are configured. Returns when each
   * is served or unavailable; a group that appears later is served then.
   */
  async serveGroups(volumeGroups: ReadonlySet<string>, signal: AbortSignal): Promise<void> {
    for (const name of volumeGroups) checkVolumeGroup(name); // it becomes part of commands and of a path
    const serving = this.#configured.serveGroups(new Set(volumeGroups), this.#abort.signal).then((isNew) => {
      if (isNew) this.#unserved.lookLater();
    });
    await abortable(serving, signal); // goes on if the caller leaves
  }

  /** All of `allPools`, whether or not they can be served now. */
  deviceClasses(): readonly DeviceClass[] {
    return this.#configured.deviceClasses();
  }

  /** The class that has been hanging for longest, if any. */
  get slowest(): ConfiguredPools['slowest'] {
    return this.#configured.slowest;
  }

  /** Counts of LVM's work since the start. */
  get lvmCounts(): LvmCounts {
    return this.#groups.counts;
  }

  /**
   * LVM's version and the segment types that it supports, without the variants of RAID levels, such as raid5_ls. Runs two
   * commands. Undefined if no class uses LVM.
   */
  async lvmAbilities(signal: AbortSignal): Promise<LvmAbilities | undefined> {
    if (!usesLvm(this.deviceClasses())) return undefined;
    const [versions, segmentTypes] = [await this.#askLvm('version', signal), await this.#askLvm('segtypes', signal)];
    const version = /^\s*LVM version:\s*(\S+)/m.exec(versions)?.[1];
    return {
      ...(version && { version }),
      segmentTypes: segmentTypes.split(/\s+/).filter((type) => /^[^_]+$/.test(type)),
    };
  }

  /** Why the current configuration file is not used; undefined while it is. */
  get configProblem(): unknown {
    return this.#file?.problem;
  }

  async stop(): Promise<void> {
    this.#file?.close();
    this.#abort.abort();
    this.#unserved.stop();
    await this.#configured.stop();
    await this.#groups.stop();
  }

  async #apply(first: StorageConfig, changed: StorageConfig, log: Log): Promise<void> {
    if (changed.socketPath !== first.socketPath || !isDeepStrictEqual(changed.lvmCommand, first.lvmCommand)) {
      log.warn('a change of socket-name or lvm-command-prefix takes effect after a restart');
    }
    try {
      await this.#configured.apply(changed, this.#abort.signal);
      this.#unserved.lookLater();
      log.info('changed configuration applied');
    } catch (error) {
      log.error({ err: error }, `cannot apply the changed configuration: ${messageOf(error)}`);
    }
  }
}

/** A node whose classes are all files may not have LVM. */
function usesLvm(deviceClasses: readonly DeviceClass[]): boolean {
  return deviceClasses.some(({ type }) => type !== 'file');
}

export interface PoolCollaborators {
  readonly groups: VolumeGroups;
  readonly stateDirectory: string;
  readonly run: Run;
  readonly clock: Clock;
  readonly log: Log;
}

/** Opens pools of all kinds; those in one volume group share its state and its lock. */
export function poolOpener({ groups, stateDirectory, run, clock, log }: PoolCollaborators): OpenPool {
  return async ({ deviceClass, optionClasses }, signal) => {
    const erasures = new Erasures({ eraser: new Eraser(run), clock, log });
    if (deviceClass.type === 'file') return FilePool.open({ deviceClass, erasures, stateDirectory, run, log }, signal);
    const group = await groups.open(deviceClass.volumeGroup, signal);
    return LvmPool.open({ deviceClass, optionClasses, group, erasures, run, clock, log }, signal);
  };
}

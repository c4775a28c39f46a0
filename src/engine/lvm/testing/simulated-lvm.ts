import { randomUUID } from 'node:crypto';
import {
  type Command,
  CommandCancelled,
  CommandFailed,
  CommandTimedOut,
  type Output,
  type Run,
} from '../../../base/exec.ts';

interface SimulatedVolume {
  extents: number;
  tags: string[];
  /** Set for a thin volume, which takes no extents from the group itself. */
  readonly pool?: string;
  readonly origin?: string;
  readonly readOnly?: boolean;
  readonly stripes?: number;
}

/**
 * A volume group `vg` for tests. It supports only the commands that pools run, as processes. The tests in the LVM world
 * cover real LVM.
 */
export class SimulatedLvm {
  readonly extentBytes = 4194304;
  readonly volumes = new Map<string, SimulatedVolume>();
  /** Names of inactive volumes. */
  readonly inactive = new Set<string>();
  readonly commands: string[] = [];
  /** Set to make commands fail before or after they take effect, or hang until their timeout. */
  fails: (subcommand: string, args: readonly string[]) => 'before' | 'after' | 'hangs' | undefined = () => undefined;
  /** Usage of the thin pool. */
  usage = { dataPercent: 0, metadataPercent: 0 };
  /** The sequence number of the group. */
  sequenceNumber = 1;
  /** The sequence number that the disks show; undefined simulates unreadable disks. */
  numberOnDisks: () => number | undefined = () => this.sequenceNumber;
  readonly #uuids = new WeakMap<SimulatedVolume, string>();
  readonly #extents: number;
  readonly #thinPool: { readonly name: string; readonly extents: number } | undefined;

  constructor(extents: number, thinPool?: { readonly name: string; readonly extents: number }) {
    this.#extents = extents;
    this.#thinPool = thinPool;
  }

  readonly run: Run = async (command, { signal }) => {
    await Promise.resolve(); // so that commands interleave if they do not wait for each other
    const [program, word = '', ...args] = command;
    const subcommand = program === 'dmsetup' ? program : word;
    this.commands.push(subcommand);
    const failure = this.fails(subcommand, args);
    if (failure === 'hangs') throw new CommandTimedOut(command, 60_000);
    if (failure === 'before') throw failed(command, 'simulated failure');
    const stdout = this.#execute(command, subcommand, args);
    await Promise.resolve();
    if (signal?.aborted) throw new CommandCancelled(command, signal.reason);
    if (failure === 'after') throw failed(command, 'simulated failure');
    return { stdout, stderr: '' } satisfies Output;
  };

  deviceNames = async (): Promise<readonly string[]> =>
    [...this.volumes.keys()].filter((name) => !this.inactive.has(name));

  /** Creates a volume as if by somebody else. */
  addForeign(name: string, extents: number): void {
    this.volumes.set(name, { extents, tags: [] });
    this.sequenceNumber++;
  }

  get freeExtents(): number {
    const thick = [...this.volumes.values()].filter(({ pool }) => pool === undefined);
    return this.#extents - (this.#thinPool?.extents ?? 0) - thick.reduce((sum, volume) => sum + volume.extents, 0);
  }

  #execute(command: Command, subcommand: string, args: readonly string[]): string {
    switch (subcommand) {
      case 'fullreport':
        return this.#report();
      case 'lvs':
        return JSON.stringify({ report: [{ lv: [this.#usage()] }] });
      case 'dmsetup':
        return this.#thinPoolStatus();
      case 'lvcreate':
        this.#create(command, args);
        return '';
      case 'lvextend':
        this.#grow(command, args);
        return '';
      case 'lvchange':
        this.#change(command, args);
        return '';
      case 'lvremove':
        this.#remove(command, args);
        return '';
      default:
        throw failed(command, 'no such command');
    }
  }

  #create(command: Command, args: readonly string[]): void {
    const name = after(args, '--name') ?? '';
    if (this.volumes.has(name)) throw failed(command, 'already exists');
    const tags = allAfter(args, '--addtag');
    const virtualSize = after(args, '--virtualsize');
    if (args.includes('--snapshot')) {
      const origin = args.at(-1)?.replace(/^vg\//, '') ?? '';
      const { extents, pool } = this.#volume(command, origin);
      const readOnly = after(args, '--permission') === 'r';
      this.volumes.set(name, { extents, tags, origin, readOnly, ...(pool && { pool }) });
      this.sequenceNumber += 2;
    } else if (virtualSize) {
      const pool = after(args, '--thinpool') ?? '';
      this.volumes.set(name, { extents: this.#extentsOf(virtualSize), tags, pool });
      this.sequenceNumber += 2;
    } else {
      const stripes = Number(after(args, '--stripes') ?? 1);
      const extents = roundedUp(Number(after(args, '--extents')), stripes);
      if (extents > this.freeExtents) throw failed(command, 'insufficient free space');
      this.volumes.set(name, { extents, tags, stripes });
      this.sequenceNumber += 1;
    }
  }

  #grow(command: Command, args: readonly string[]): void {
    const volume = this.#volume(command, args.at(-1)?.replace(/^vg\//, '') ?? '');
    const size = after(args, '--size');
    const extents = size ? this.#extentsOf(size) : roundedUp(Number(after(args, '--extents')), volume.stripes ?? 1);
    if (!volume.pool && extents - volume.extents > this.freeExtents) throw failed(command, 'insufficient free space');
    volume.extents = extents;
    this.sequenceNumber += 1;
  }

  #change(command: Command, args: readonly string[]): void {
    if (args.includes('--activate')) return;
    const volume = this.#volume(command, args.at(-1)?.replace(/^vg\//, '') ?? '');
    const removed = allAfter(args, '--deltag');
    volume.tags = [...volume.tags.filter((tag) => !removed.includes(tag)), ...allAfter(args, '--addtag')];
    this.sequenceNumber += 1;
  }

  #remove(command: Command, args: readonly string[]): void {
    const names = args.filter((word) => word.startsWith('vg/')).map((path) => path.slice('vg/'.length));
    const volumes = names.map((name) => this.#volume(command, name));
    for (const name of names) this.volumes.delete(name);
    this.sequenceNumber += volumes.some(({ pool }) => pool) ? 2 * names.length : 1;
  }

  #extentsOf(size: string): number {
    return Math.ceil(Number.parseInt(size, 10) / this.extentBytes);
  }

  #volume(command: Command, id: string): SimulatedVolume {
    const volume = this.volumes.get(id);
    if (!volume) throw failed(command, `Failed to find logical volume "vg/${id}"`);
    return volume;
  }

  /** A re-created volume gets a new UUID under the same name, as in LVM. */
  #uuidOf(volume: SimulatedVolume): string {
    const uuid = this.#uuids.get(volume) ?? randomUUID();
    this.#uuids.set(volume, uuid);
    return uuid;
  }

  #thinPoolStatus(): string {
    const { dataPercent, metadataPercent } = this.usage;
    return `0 819200 thin-pool 1 ${Math.round(metadataPercent * 100)}/10000 ${Math.round(dataPercent * 100)}/10000 - rw \n`;
  }

  #usage() {
    const { dataPercent, metadataPercent } = this.usage;
    return { data_percent: dataPercent.toFixed(2), metadata_percent: metadataPercent.toFixed(2) };
  }

  #report(): string {
    const blank = { lv_tags: '', origin: '', origin_size: '', pool_lv: '', data_percent: '', metadata_percent: '' };
    const row = (name: string, extents: number, attr: string) => ({
      ...blank,
      lv_name: name,
      lv_uuid: `uuid-of-${name}`,
      lv_path: attr.startsWith('t') ? '' : `/dev/vg/${name}`,
      lv_size: String(extents * this.extentBytes),
      lv_attr: attr,
      lv_active: 'active',
    });
    const lv = [...this.volumes].map(([name, volume]) => ({
      ...row(
        name,
        volume.extents,
        `${volume.pool ? 'V' : '-'}${volume.readOnly ? 'r' : 'w'}i-a-${volume.pool ? 'tz--' : '----'}`,
      ),
      lv_uuid: this.#uuidOf(volume),
      lv_active: this.inactive.has(name) ? '' : 'active',
      lv_tags: volume.tags.join(','),
      origin: volume.origin && this.volumes.has(volume.origin) ? volume.origin : '',
      pool_lv: volume.pool ?? '',
    }));
    if (this.#thinPool) {
      lv.push({ ...row(this.#thinPool.name, this.#thinPool.extents, 'twi-aotz--'), ...this.#usage() });
    }
    const vg = {
      vg_uuid: 'EKLdvx-simulated',
      vg_seqno: String(this.sequenceNumber),
      vg_extent_size: String(this.extentBytes),
      vg_extent_count: String(this.#extents),
      vg_free_count: String(this.freeExtents),
    };
    const seg = [...this.volumes].map(([name, { stripes = 1 }]) => ({ lv_name: name, stripes: String(stripes) }));
    return JSON.stringify({ report: [{ vg: [vg], pv: [], lv, seg }] });
  }
}

/** Rounds up to the same number of extents on each stripe. */
function roundedUp(extents: number, stripes: number): number {
  return Math.ceil(extents / stripes) * stripes;
}

function after(args: readonly string[], option: string): string | undefined {
  return allAfter(args, option)[0];
}

function allAfter(args: readonly string[], option: string): string[] {
  return args.filter((_, index) => args[index - 1] === option);
}

function failed(command: Command, stderr: string): CommandFailed {
  return new CommandFailed(command, { exitCode: 5, signal: null, stdout: '', stderr });
}

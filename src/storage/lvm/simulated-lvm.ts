import { type Command, CommandCancelled, CommandFailed, type Output, type Run } from '../../base/exec.ts';

interface SimulatedVolume {
  extents: number;
  tags: string[];
}

/**
 * One volume group `vg` of LVM, for tests of what Moorage makes of it: it understands just the commands that LvmPool
 * runs. Whether real LVM understands them too is for the tests in the LVM world.
 */
export class SimulatedLvm {
  readonly extentBytes = 4194304;
  readonly volumes = new Map<string, SimulatedVolume>();
  readonly commands: string[] = [];
  /** Set to make commands go wrong: before they have done anything, or after. */
  fails: (subcommand: string) => 'before' | 'after' | undefined = () => undefined;
  readonly #extents: number;

  constructor(extents: number) {
    this.#extents = extents;
  }

  readonly run: Run = async (command, { signal }) => {
    await Promise.resolve(); // so that commands which should wait for each other would mix if they did not
    const [, subcommand = '', ...args] = command;
    this.commands.push(subcommand);
    const failure = this.fails(subcommand);
    if (failure === 'before') throw failed(command, 'failed as told');
    const stdout = this.#execute(command, subcommand, args);
    await Promise.resolve();
    if (signal?.aborted) throw new CommandCancelled(command, signal.reason);
    if (failure === 'after') throw failed(command, 'failed as told');
    return { stdout, stderr: '' } satisfies Output;
  };

  get freeExtents(): number {
    return this.#extents - [...this.volumes.values()].reduce((sum, volume) => sum + volume.extents, 0);
  }

  #execute(command: Command, subcommand: string, args: readonly string[]): string {
    const extents = Number(after(args, '--extents'));
    const id = args.at(-1)?.replace(/^vg\//, '') ?? '';
    switch (subcommand) {
      case 'fullreport':
        return this.#report();
      case 'lvcreate': {
        const name = after(args, '--name') ?? '';
        if (this.volumes.has(name)) throw failed(command, 'already exists');
        if (extents > this.freeExtents) throw failed(command, 'insufficient free space');
        this.volumes.set(name, { extents, tags: allAfter(args, '--addtag') });
        return '';
      }
      case 'lvextend':
        if (extents - this.#volume(command, id).extents > this.freeExtents)
          throw failed(command, 'insufficient free space');
        this.#volume(command, id).extents = extents;
        return '';
      case 'lvchange':
        this.#volume(command, id).tags.push(...allAfter(args, '--addtag'));
        return '';
      case 'lvremove':
        this.#volume(command, id);
        this.volumes.delete(id);
        return '';
      default:
        throw failed(command, 'no such command');
    }
  }

  #volume(command: Command, id: string): SimulatedVolume {
    const volume = this.volumes.get(id);
    if (!volume) throw failed(command, `Failed to find logical volume "vg/${id}"`);
    return volume;
  }

  #report(): string {
    const lv = [...this.volumes].map(([name, { extents, tags }]) => ({
      lv_name: name,
      lv_path: `/dev/vg/${name}`,
      lv_size: String(extents * this.extentBytes),
      lv_attr: '-wi-a-----',
      lv_active: 'active',
      lv_tags: tags.join(','),
    }));
    const vg = {
      vg_extent_size: String(this.extentBytes),
      vg_extent_count: String(this.#extents),
      vg_free_count: String(this.freeExtents),
    };
    return JSON.stringify({ report: [{ vg: [vg], lv }] });
  }
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

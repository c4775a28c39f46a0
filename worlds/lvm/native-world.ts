import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { messageOf } from '../../src/base/errors.ts';
import { run, spawn } from '../host/processes.ts';
import { newRunDir } from '../host/run-dir.ts';
import { Janitor } from './janitor.ts';
import { createDisks, type World, worldEnvironment } from './world.ts';

const quickMs = 60_000;

/** Why LVM cannot be used on this host; undefined if it can. */
export async function whyNotNative(): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return 'we are not root';
  try {
    if (!existsSync('/dev/mapper/control')) await run(['modprobe', 'dm-mod'], { timeoutMs: quickMs });
  } catch (error) {
    return `the kernel has no device mapper, nor can it be loaded (${messageOf(error)})`;
  }
  try {
    await run(['dmsetup', 'version'], { timeoutMs: quickMs });
    await run(['lvm', 'version'], { timeoutMs: quickMs });
    await run(['losetup', '--find'], { timeoutMs: quickMs });
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

/** The world on the host's own kernel: loop devices, and an LVM configuration that sees nothing else. */
export async function nativeWorld(): Promise<World> {
  const dir = await newRunDir('lvm');
  const janitor = await Janitor.start(dir);
  const prefix = `moorage${randomBytes(4).toString('hex')}`;
  const close = () => janitor.clean();
  try {
    await writeFile(join(dir, 'prefix'), `${prefix}\n`); // identifies the world's devices for the janitor
    const disks: string[] = [];
    for (const image of await createDisks(dir)) {
      const { stdout } = await run(['losetup', '--find', '--show', image], { timeoutMs: quickMs });
      disks.push(stdout.trim());
    }
    const lvmDir = join(dir, 'lvm');
    await mkdir(lvmDir);
    await writeFile(join(lvmDir, 'lvm.conf'), lvmConfiguration(disks, prefix));
    const world = { ...worldEnvironment(disks, prefix), LVM_SYSTEM_DIR: lvmDir };
    return {
      async run(argv, env, print) {
        // Its own mount and PID namespaces, which end with their first process; the lock shows the janitor when they are gone.
        const cage = [
          ...['flock', '--no-fork', join(dir, 'lock'), 'setpriv', '--pdeathsig', 'KILL'],
          ...['unshare', '--mount', '--pid', '--fork', '--kill-child=KILL', '--mount-proc', '--'],
        ];
        const child = spawn('setpriv', ['--pdeathsig', 'KILL', ...cage, ...argv], {
          env: { ...world, ...env },
          stdio: ['ignore', 'pipe', 'pipe'],
        });
        child.stdout.on('data', print);
        child.stderr.on('data', print);
        const [exitCode] = (await once(child, 'close')) as [number | null];
        return exitCode ?? 1;
      },
      lastWords: async () => (await run(['dmsetup', 'table'], { timeoutMs: quickMs })).stdout,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function lvmConfiguration(disks: readonly string[], prefix: string): string {
  const ours = [...disks.map((disk) => `^${disk}$`), `^/dev/mapper/${prefix}fault`];
  const filter = [...ours.map((pattern) => `"a|${pattern}|"`), '"r|.*|"'].join(', ');
  return `devices { global_filter=[${filter}] use_devicesfile=0 obtain_device_list_from_udev=0 external_device_info_source="none" }
activation { udev_sync=0 udev_rules=0 verify_udev_operations=0 monitoring=0 }
global { use_lvmpolld=0 event_activation=0 }
backup { backup=0 archive=0 }
`;
}

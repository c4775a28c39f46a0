import { join } from 'node:path';
import { newRunDir } from '../host/run-dir.ts';
import { Machine } from '../machine/machine.ts';
import { ensureMachineFiles } from '../machine/machine-files.ts';
import { quote } from '../machine/quote.ts';
import { ensureSystemdTree } from '../machine/systemd-tree.ts';
import { Janitor } from './janitor.ts';
import { createDisks, createRootDisk, type World, worldEnvironment } from './world.ts';

const fileTimeoutMs = 15 * 60_000;
const memoryMb = 512;

/** A running machine with empty disks. It ends with `close`, or with this process. */
export async function startMachine(
  report: (line: string) => void,
  { core, systemd }: { readonly core?: number; readonly systemd?: boolean } = {},
): Promise<{
  machine: Machine;
  disks: string[];
  close: () => Promise<void>;
}> {
  const files = await ensureMachineFiles(report);
  const dir = await newRunDir('lvm');
  const janitor = await Janitor.start(dir);
  try {
    const images = await createDisks(dir);
    const disks = images.map((_, index) => `/dev/ubd${'abcdefghijklmnop'[index]}`);
    const env = systemd ? {} : worldEnvironment(disks, 'world'); // no test runs inside
    const machine = await Machine.create({
      files,
      dir: join(dir, 'machine'),
      name: 'lvm',
      memoryMb,
      disks: images,
      env,
      ...(core !== undefined && { cpu: core }),
      ...(systemd && { systemd: { tree: await ensureSystemdTree(report), rootDisk: await createRootDisk(dir) } }),
    });
    await machine.start();
    const close = async () => {
      await machine.powerLoss();
      await janitor.clean();
    };
    return { machine, disks, close };
  } catch (error) {
    await janitor.clean();
    throw error;
  }
}

/** The world for a host without device mapper in its kernel, or without root. */
export async function machineWorld(report: (line: string) => void, core: number): Promise<World> {
  const { machine, close } = await startMachine(report, { core });
  return {
    async run(argv, env, print) {
      const words = Object.entries(env).map(([name, value]) => `${name}=${value}`);
      const command = ['env', ...words, ...argv].map(quote).join(' ');
      const { exitCode } = await machine.sh(`cd ${quote(process.cwd())} && exec ${command}`, {
        timeoutMs: fileTimeoutMs,
        onStdout: print,
        onStderr: print,
      });
      return exitCode;
    },
    lastWords: () => machine.console(),
    close,
  };
}

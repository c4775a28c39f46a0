import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { TestContext } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { type Run, run } from '../../src/base/exec.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { StorageEngine } from '../../src/engine/storage-engine.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { command, deviceName, disks, volumeGroup } from '../../worlds/lvm/inside.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';

export interface EngineOfTest {
  readonly engine: StorageEngine;
  readonly volumeGroup: string;
  /** Restarts the engine on the same disks, with these settings for each class. */
  readonly restart: (settings?: string) => Promise<StorageEngine>;
}

const signal = new AbortController().signal;

/** The whole engine with a class of each kind on real disks: `thick`, `thin` and `file`. Settings are YAML, such as `erase: zero`. */
export async function engineOfTest(t: TestContext, settings = '', runs: Run = run): Promise<EngineOfTest> {
  const [first = '', second = ''] = disks();
  const vg = await volumeGroup(t, { disks: [first] });
  await command('lvcreate', '--yes', '--type', 'thin-pool', '--name', 'pool', '--size', '256m', vg);
  const directory = await filesystemOn(t, second);
  const configFile = `/tmp/${deviceName('lvmd.yaml')}`;
  const stateDirectory = await mkdtemp('/tmp/moorage-state-');
  undoAfter(t, () => rm(stateDirectory, { recursive: true }));
  let engine: StorageEngine | undefined;
  undoAfter(t, async () => engine?.stop());

  const restart = async (settings = ''): Promise<StorageEngine> => {
    await engine?.stop();
    const class_ = (name: string, fields: string) => `  - {name: ${name}, spare-gb: 0, ${fields}, ${settings}}`;
    const classes = [
      class_('thick', `volume-group: ${vg}`),
      class_('thin', `volume-group: ${vg}, type: thin, thin-pool: {name: pool, overprovision-ratio: 10}`),
      class_('file', `type: file, path: ${directory}`),
    ];
    await writeFile(configFile, `lvm-command-prefix: [lvm]\ndevice-classes:\n${classes.join('\n')}\n`);
    engine = await StorageEngine.start(
      { configFile, stateDirectory, run: runs, env: process.env, clock: systemClock, log: silentLog },
      signal,
    );
    return engine;
  };
  return { engine: await restart(settings), volumeGroup: vg, restart };
}

async function filesystemOn(t: TestContext, disk: string): Promise<string> {
  const directory = `/tmp/${deviceName('files')}`;
  await command('mkfs.xfs', '-q', '-f', '-K', disk);
  await mkdir(directory, { recursive: true });
  await command('mount', disk, directory);
  undoAfter(t, async () => {
    await command(
      'sh',
      '-c',
      `losetup --list --noheadings --output NAME,BACK-FILE | awk '$2 ~ "^${directory}/" {print $1}' | xargs -r -n 1 losetup --detach`,
    );
    // It is busy until nobody has the devices open any more.
    await eventually('it is unmounted', () => command('umount', directory).then(() => true));
    await command('wipefs', '--all', '--quiet', disk);
  });
  return directory;
}

import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Command } from '../../base/exec.ts';
import { exists } from '../../base/exists.ts';

/** Stands for the directory of devices until it is known where that will be. */
const devicesDirMark = '@devices@';

/**
 * For commands that are processes: whatever an administrator likes to see of LVM, its reports come to us alone and as they
 * are. And it discards nothing: before a removal is committed it would do that under its lock, for as long as it takes, and
 * from the beginning if it is killed meanwhile. We do it ourselves before, see `issuesDiscards`.
 */
export const processSettings = settingsForProcesses('');

/** The same, and LVM looks at nothing but these disks; one whose name means something else in a pattern is not found. */
export function settingsForDisks(devices: readonly string[]): string {
  const filter = `[${devices.map((device) => `"a|^${device}$|"`).join(',')},"r|.*|"]`;
  return settingsForProcesses(`filter=${filter} global_filter=${filter} hints="none"`);
}

function settingsForProcesses(ofDevices: string): string {
  const plain = 'log { report_command_log=0 prefix="  " command_names=0 } report { prefixes=0 }';
  return `${plain} devices { issue_discards=0 ${ofDevices}}`;
}

/**
 * Makes the shell answer in JSON, tell how each command ended, and look at nothing but the devices given.
 *
 * Before it suspends a device LVM sets memory aside, in order to need none meanwhile. The shell keeps most of what it had
 * before, so a fraction of LVM's own 8 MiB is enough, and 16 MiB less are held for good.
 */
const settings = [
  'activation { reserved_memory=1024 }',
  'log { report_command_log=1 prefix="  " command_names=0 command_log_selection="all" command_log_sort="log_seq_num" }',
  'report { output_format="json" prefixes=0 }',
  `devices { scan=["${devicesDirMark}"] filter=["a|^${devicesDirMark}/|","r|.*|"] global_filter=["a|^${devicesDirMark}/|","r|.*|"]`,
  'obtain_device_list_from_udev=0 use_devicesfile=0 hints="none" }',
].join(' ');

/** LVM wants a read cache that is 1 MiB larger than the metadata of a group; the least that it takes is 4 MiB. */
const smallMetadataBytes = 3n * 1024n ** 2n;
const systemBus = '/run/dbus/system_bus_socket';

/** What of a volume group's disks a shell must know. */
export interface Disks {
  /** Their paths, as LVM names them. */
  readonly devices: readonly string[];
  /** No metadata is larger than the area that it is kept in. */
  readonly metadataAreaBytes: bigint;
}

/** Whether LVM, by the node's own configuration, tells disks of the space that a removal gives back. */
export function issuesDiscards(mergedConfiguration: string): boolean {
  return /^\s*issue_discards=1$/m.test(mergedConfiguration);
}

/** Prints the node's own configuration with ours merged into it by LVM itself. */
export const mergedConfiguration: readonly string[] = [
  ...['dumpconfig', '--type', 'full', '--mergedconfig'],
  ...['--config', settings],
];

/**
 * Writes a configuration directory for shells, and returns its path. Looking through /dev takes LVM longer than all the
 * rest where there are many volumes, so a shell gets a directory with links to its physical volumes only. LVM itself,
 * by the node's own filters, has told which those are.
 *
 * A directory is named by what is in it and never changes: it can be shared, and a crash leaves nothing to clean up.
 */
export async function writeShellSettings(
  root: string,
  mergedConfiguration: string,
  { devices, metadataAreaBytes }: Disks,
): Promise<string> {
  const hasBus = await exists(`${root}${systemBus}`);
  const isSmall = metadataAreaBytes <= smallMetadataBytes;
  const configuration = lean(mergedConfiguration, { hasBus, isSmall }).replace(/^(\s*issue_discards)=1$/m, '$1=0');
  const hash = createHash('sha256').update(JSON.stringify([configuration, devices]));
  const dir = join('/run/moorage/lvm', hash.digest('hex').slice(0, 16));
  const path = `${root}${dir}`;
  if (await exists(path)) return dir;

  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const unfinished = await mkdtemp(`${path}.`);
  try {
    await mkdir(join(unfinished, 'devices'));
    for (const device of devices) await symlink(device, join(unfinished, 'devices', device.replaceAll('/', '!')));
    await writeFile(join(unfinished, 'lvm.conf'), configuration.replaceAll(devicesDirMark, join(dir, 'devices')));
    await rename(unfinished, path);
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true });
    if (!(await exists(path))) throw error; // else another process was faster, with the same
  }
  return dir;
}

/**
 * Takes back two of LVM's own choices that cost memory here. What LVM reads disks through is locked in memory before a device
 * is suspended, and of 8 MiB the usual metadata needs one. And to tell a bus of changes that is not there, LVM would load all
 * that it takes to speak to one. What an administrator has chosen otherwise stays.
 */
function lean(configuration: string, its: { readonly hasBus: boolean; readonly isSmall: boolean }): string {
  const quiet = its.hasBus ? configuration : configuration.replace(/^(\s*notify_dbus)=1$/m, '$1=0');
  return its.isSmall ? quiet.replace(/^(\s*io_memory_size)=8192$/m, '$1=4096') : quiet;
}

/**
 * Where the files of LVM's mount namespace are to be found by us: with nsenter it is that of another process, such as
 * the node's first one.
 */
export function rootOf(command: Command): string {
  const [program, ...args] = command;
  const target = args[args.indexOf('-t') + 1];
  const entersMounts = args.includes('-m') && args.includes('-t');
  return basename(program) === 'nsenter' && entersMounts ? `/proc/${target}/root` : '';
}

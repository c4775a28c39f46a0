import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Command } from '../../base/exec.ts';
import { exists } from '../../base/exists.ts';

/** Placeholder for the directory of devices until its path is known. */
const devicesDirMark = '@devices@';

/**
 * For commands that are processes: plain reports, whatever the administrator configured, and no discards. LVM would
 * discard under its lock before it commits a removal, for as long as that takes, and from the start again if it is
 * killed. Moorage discards itself before the removal, see `issuesDiscards`.
 */
export const processSettings = settingsForProcesses('');

/** The same, limited to these disks. A path with special characters of a regular expression is not found. */
export function settingsForDisks(devices: readonly string[]): string {
  const filter = `[${devices.map((device) => `"a|^${device}$|"`).join(',')},"r|.*|"]`;
  return settingsForProcesses(`filter=${filter} global_filter=${filter} hints="none"`);
}

function settingsForProcesses(ofDevices: string): string {
  const plain = 'log { report_command_log=0 prefix="  " command_names=0 } report { prefixes=0 }';
  return `${plain} devices { issue_discards=0 ${ofDevices}}`;
}

/**
 * Makes the shell answer in JSON, report how each command ended, and use only the given devices.
 *
 * LVM reserves memory before it suspends a device, so that it needs none meanwhile. The shell keeps most of its memory
 * anyway, so a fraction of the default 8 MiB is enough, which saves 16 MiB permanently.
 */
const settings = [
  'activation { reserved_memory=1024 }',
  'log { report_command_log=1 prefix="  " command_names=0 command_log_selection="all" command_log_sort="log_seq_num" }',
  'report { output_format="json" prefixes=0 }',
  `devices { scan=["${devicesDirMark}"] filter=["a|^${devicesDirMark}/|","r|.*|"] global_filter=["a|^${devicesDirMark}/|","r|.*|"]`,
  'obtain_device_list_from_udev=0 use_devicesfile=0 hints="none" }',
].join(' ');

/** LVM needs a read cache 1 MiB larger than the metadata of a group; its minimum is 4 MiB. */
const smallMetadataBytes = 3n * 1024n ** 2n;
const systemBus = '/run/dbus/system_bus_socket';

/** What a shell must know about the disks of a volume group. */
export interface Disks {
  /** Device paths, as LVM names them. */
  readonly devices: readonly string[];
  /** Upper bound of the metadata size. */
  readonly metadataAreaBytes: bigint;
}

/** Whether the node's configuration makes LVM discard freed space. */
export function issuesDiscards(mergedConfiguration: string): boolean {
  return /^\s*issue_discards=1$/m.test(mergedConfiguration);
}

/** Prints the node's own configuration merged with ours by LVM itself. */
export const mergedConfiguration: readonly string[] = [
  ...['dumpconfig', '--type', 'full', '--mergedconfig'],
  ...['--config', settings],
];

/**
 * Writes a configuration directory for shells, and returns its path. With many volumes, scanning /dev takes LVM longer
 * than everything else, so a shell gets a directory with links to its physical volumes only. LVM chose those by the
 * node's own filters.
 *
 * A directory is named after its content and never changes: it can be shared, and a crash leaves nothing to clean up.
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
    if (!(await exists(path))) throw error; // otherwise another process wrote the same
  }
  return dir;
}

/**
 * Lowers two of LVM's defaults that cost memory here. LVM locks its 8 MiB read cache in memory before it suspends a
 * device, but typical metadata needs 1 MiB. And to notify D-Bus, LVM loads a client library even if there is no bus.
 * Other values, set by an administrator, stay.
 */
function lean(configuration: string, options: { readonly hasBus: boolean; readonly isSmall: boolean }): string {
  const quiet = options.hasBus ? configuration : configuration.replace(/^(\s*notify_dbus)=1$/m, '$1=0');
  return options.isSmall ? quiet.replace(/^(\s*io_memory_size)=8192$/m, '$1=4096') : quiet;
}

/**
 * The root directory of LVM's mount namespace as this process sees it: with nsenter it is that of another process, such
 * as PID 1 of the node.
 */
export function rootOf(command: Command): string {
  const [program, ...args] = command;
  const target = args[args.indexOf('-t') + 1];
  const entersMounts = args.includes('-m') && args.includes('-t');
  return basename(program) === 'nsenter' && entersMounts ? `/proc/${target}/root` : '';
}

import { join } from 'node:path';
import type { MachineOptions } from './machine.ts';

/** How long a machine that is still dying may keep its directory before a new start gives up. */
const lockTimeoutSeconds = 60;

/**
 * The command that is the machine: a chain of programs, each becoming or starting the next, the kernel last.
 *
 * The kernel runs in its own PID namespace, and unless detached, each link dies with the one before it: nothing outlives
 * the process that started the machine, even if SIGKILL ends that. While any link lives, `dir`/lock is held.
 * File descriptor 3 is the serial port's input.
 */
export function machineCommand(options: MachineOptions, core: number): string[] {
  const { dir, files } = options;
  const dieWithParent = options.detached ? [] : ['setpriv', '--pdeathsig', 'KILL'];
  const becomeRoot = process.getuid?.() === 0 ? [] : ['--map-root-user'];
  return [
    ...dieWithParent,
    ...['flock', '--no-fork', '--timeout', String(lockTimeoutSeconds), join(dir, 'lock')],
    ...['taskset', '--cpu-list', String(core)],
    ...(options.enter ?? []),
    ...dieWithParent, // again, because entering a PID namespace creates a new process
    ...['unshare', ...becomeRoot, '--pid', '--fork', '--kill-child=KILL', '--'],
    // A shell is the namespace's first process: the kernel itself would receive no signals there.
    ...['sh', '-c', 'cd "$0" && "$@"; exit', files.kernelDir],
    ...['env', '-i', `LD_LIBRARY_PATH=${files.kernelDir}`, 'TMPDIR=/dev/shm', 'PATH=/usr/bin:/bin', `HOME=${dir}`],
    files.kernel,
    ...kernelArguments(options),
  ];
}

function kernelArguments({ dir, files, disks, systemd, memoryMb, tap }: MachineOptions): string[] {
  const images = systemd ? [...disks, systemd.rootDisk] : disks;
  return [
    ...files.kernelArguments,
    `mem=${memoryMb}M`,
    ...['root=/dev/root', 'rootfstype=hostfs', 'rootflags=/', 'ro', `init=${join(guestDir, 'init.sh')}`],
    ...['quiet', 'panic=-1', 'noreboot', 'pty.legacy_count=0'],
    // The RAID 6 benchmark would be most of the boot; RAID 6 cannot be used in the guest.
    'initcall_blacklist=raid6_init,raid6_select_algo',
    ...[`uml_dir=${join(dir, 'uml')}/`, 'umid=machine'],
    ...['con=null', 'con0=null,fd:2', 'ssl=null', 'ssl0=fd:3,null'],
    // t: no discards, which take seconds per GiB on these disks.
    ...images.map((image, index) => `ubd${index}t=${image}`),
    ...(tap ? [`vec0:transport=tap,ifname=${tap.device},depth=128,gro=1`] : []),
    `machine=${dir}`,
  ];
}

/** The scripts that run inside. */
export const guestDir = join(import.meta.dirname, 'guest');

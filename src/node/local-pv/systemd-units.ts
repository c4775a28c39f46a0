import { posix } from 'node:path';
import { InvalidInput } from '../../base/errors.ts';
import type { MountRequest } from '../../filesystem/mounts.ts';

/**
 * The files of systemd units that mount volumes at boot, before the kubelet and without Kubernetes: their names and their
 * text. `systemd-mounts.ts` writes them.
 */

/** The first line of every file that Moorage writes for systemd; any other file belongs to somebody else. */
const marker = '# Written by Moorage: changes will be lost.';

export function isWrittenByMoorage(unit: string): boolean {
  return unit.startsWith(`${marker}\n`);
}

/** The services that are, or include, the kubelet, in the usual distributions. systemd ignores those that a node does not have. */
const kubelets = [
  'kubelet.service',
  ...['k3s.service', 'k3s-agent.service', 'rke2-server.service', 'rke2-agent.service'],
  ...['k0scontroller.service', 'k0sworker.service', 'snap.microk8s.daemon-kubelite.service'],
];

const unmounted = { prefix: 'moorage-unmounted@', suffix: '.service' } as const;
const longestName = 255;

/** systemd requires this name of the unit for a mount point: what `systemd-escape --path --suffix=mount` prints. */
export function mountUnitName(mountPoint: string): string {
  const isPath = mountPoint.startsWith('/') && mountPoint !== '/' && !mountPoint.endsWith('/');
  if (!isPath || posix.normalize(mountPoint) !== mountPoint) {
    throw new InvalidInput(`invalid mount point ${mountPoint}: use an absolute path without '.', '..' or '//'`);
  }
  const escaped = escapePath(mountPoint);
  if (unmounted.prefix.length + escaped.length + unmounted.suffix.length > longestName) {
    throw new InvalidInput(`mount point ${mountPoint} is too long for the name of a systemd unit; use a shorter name`);
  }
  return `${escaped}.mount`;
}

/** A slash becomes a dash, and everything but letters, digits, ':', '_' and '.' a hexadecimal number; so does a dot at the beginning. */
function escapePath(path: string): string {
  return Array.from(Buffer.from(path.slice(1)), (byte, index) => {
    const character = String.fromCharCode(byte);
    if (character === '/') return '-';
    const isPlain = /[A-Za-z0-9:_.]/.test(character) && !(index === 0 && character === '.');
    return isPlain ? character : `\\x${byte.toString(16).padStart(2, '0')}`;
  }).join('');
}

/**
 * `nofail` lets only the kubelet wait for the mount, and not the rest of the boot. As multi-user.target merely wants the
 * unit, its failure is no emergency. Unlike most units, it may be started any number of times: the agent limits its retries.
 */
export function mountUnit({ source, target, filesystem, options }: MountRequest): string {
  return `${marker}
[Unit]
Description=Volume ${valueOf(target)}
Before=${kubelets.join(' ')}
# Without the mount there is no directory either: a pod waits instead of writing to the disk below.
OnFailure=${unmounted.prefix}%N${unmounted.suffix}
OnSuccess=${unmounted.prefix}%N${unmounted.suffix}
StartLimitIntervalSec=0

[Mount]
What=${valueOf(source)}
Where=${valueOf(target)}
Type=${valueOf(filesystem)}
Options=${valueOf([...options, 'nofail'].join(','))}

[Install]
WantedBy=multi-user.target
`;
}

/**
 * systemd creates the directory of a mount and leaves it when the mount fails or ends. This removes it, if it is empty and
 * nothing is mounted on it: at boot before the kubelet starts, and also during a shutdown, hence no default dependencies
 * and no slice of its own.
 */
export const unmountedUnit = {
  name: `${unmounted.prefix}${unmounted.suffix}`,
  text: `${marker}
[Unit]
Description=Remove the directory of %f, which is not mounted
DefaultDependencies=no
Before=%i.mount ${kubelets.join(' ')}
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart=-:/bin/rmdir -- %f
Slice=system.slice
`,
} as const;

/** The device that a unit mounts; undefined if the file names none. */
export function deviceOf(unit: string): string | undefined {
  const values = [...unit.matchAll(/^[ \t]*What[ \t]*=[ \t]*(.*?)[ \t]*$/gm)].map(([, value = '']) => value);
  return values.at(-1)?.replaceAll('%%', '%');
}

/** A value takes the rest of its line, unquoted: only the percent sign has a meaning, and what cannot be written is refused. */
function valueOf(text: string): string {
  if (text === '' || text.trim() !== text || text.endsWith('\\') || /\p{Cc}/u.test(text)) {
    throw new InvalidInput(
      `${JSON.stringify(text)} cannot be written to a systemd unit: it is empty, starts or ends with a space, ends with a backslash or contains a control character`,
    );
  }
  return text.replaceAll('%', '%%');
}

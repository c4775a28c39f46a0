import type { Run } from '../../base/exec.ts';
import { Formatter } from '../../filesystem/format.ts';
import { FilesystemGrower } from '../../filesystem/growth.ts';
import { type MountRequest, Mounts } from '../../filesystem/mounts.ts';
import { blkid, superblockReader } from '../../filesystem/probe.ts';
import { PreparedFilesystems } from '../../volumes/prepared-filesystems.ts';
import { SystemdMounts } from './systemd-mounts.ts';

/** Who mounts static volumes, and mounts them again after a boot. */
export interface VolumeMounts {
  /** Formats, mounts and grows, as volumes of claims are. */
  readonly filesystems: Pick<PreparedFilesystems, 'mountAt'>;
  /** What is mounted is mounted again after a boot. */
  keep(request: MountRequest, signal: AbortSignal): Promise<void>;
  /** Afterwards nothing is mounted there, now and after a boot. */
  unmount(target: string, signal: AbortSignal): Promise<void>;
}

/** The agent mounts, and does so again when it starts. */
export function agentMounts(run: Run): VolumeMounts {
  const mounts = new Mounts({ run });
  return {
    filesystems: filesystemsOn(run, mounts),
    keep: async () => undefined,
    unmount: (target, signal) => mounts.unmount(target, signal),
  };
}

/** The node's systemd mounts, also while no agent runs. */
export function systemdMounts(run: Run): VolumeMounts {
  const mounts = new Mounts({ run });
  const systemd = new SystemdMounts({ run });
  return {
    filesystems: filesystemsOn(run, {
      holding: (target, device) => mounts.holding(target, device),
      mount: (request, signal) => systemd.ensure(request, signal),
    }),
    keep: (request, signal) => systemd.ensure(request, signal),
    unmount: (target, signal) => systemd.remove(target, signal),
  };
}

function filesystemsOn(run: Run, mounts: Pick<Mounts, 'holding' | 'mount'>): PreparedFilesystems {
  const superblock = superblockReader();
  return new PreparedFilesystems({
    formatter: new Formatter({ run, probe: blkid(run), superblock }),
    grower: new FilesystemGrower({ run, superblock }),
    mounts,
  });
}

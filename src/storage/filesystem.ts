import type { Run } from '../base/exec.ts';
import type { Pool, Volume, VolumeId } from './pool.ts';
import type { ProbeDevice } from './probe.ts';

export const filesystems = ['ext4', 'xfs', 'btrfs'] as const;
export type Filesystem = (typeof filesystems)[number];

/** Makes sure that a volume holds the wanted filesystem, and never by destroying another. */
export class Formatter {
  constructor(_collaborators: { readonly run: Run; readonly probe: ProbeDevice }) {}

  /** Afterwards the volume can be mounted as `wanted`. */
  async ensure(_pool: Pool, _id: VolumeId, _wanted: Filesystem, _signal: AbortSignal): Promise<Volume> {
    throw new Error('to come');
  }
}

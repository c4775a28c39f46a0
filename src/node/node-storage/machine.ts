import { release } from 'node:os';
import type { NodeStorageStatus } from '../../api/node-storage.ts';
import type { Command, Run } from '../../base/exec.ts';
import type { LvmAbilities } from '../../engine/storage-engine.ts';

/** What changes only with a restart of the agent. */
export type Machine = Pick<NodeStorageStatus, 'versions' | 'features'>;

interface Collaborators {
  /** Moorage's own. */
  readonly version: string;
  readonly ioLimits: boolean;
  /** Undefined if LVM is not used, or another process uses it. */
  readonly lvmAbilities: (signal: AbortSignal) => Promise<LvmAbilities | undefined>;
  readonly run: Run;
}

const timeoutMs = 10_000;

const tools = {
  e2fsprogs: ['mkfs.ext4', '-V'],
  xfsprogs: ['mkfs.xfs', '-V'],
  btrfsProgs: ['mkfs.btrfs', '--version'],
} as const satisfies Partial<Record<keyof Machine['versions'], Command>>;

/** Runs some quick commands. What cannot be determined is left out: a tool may be missing because no class needs it. */
export async function inspectMachine(
  { version, ioLimits, lvmAbilities, run }: Collaborators,
  signal: AbortSignal,
): Promise<Machine> {
  const lvm = await lvmAbilities(signal).catch(() => undefined);
  const versions: Record<string, string> = { moorage: version, kernel: release() };
  if (lvm?.version) versions['lvm'] = lvm.version;
  for (const [name, command] of Object.entries(tools)) {
    const found = await toolVersion(run, command, signal);
    if (found) versions[name] = found;
  }
  return { versions, features: { ioLimits, ...(lvm && { segmentTypes: lvm.segmentTypes }) } };
}

async function toolVersion(run: Run, command: Command, signal: AbortSignal): Promise<string | undefined> {
  try {
    const { stdout, stderr } = await run(command, { timeoutMs, signal });
    return /\d+(\.\d+)+/.exec(stdout + stderr)?.[0]; // mkfs.ext4 prints it to stderr
  } catch {
    return undefined;
  }
}

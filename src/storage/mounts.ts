import type { Run } from '../base/exec.ts';
import type { Mount } from './mountinfo.ts';

export interface MountRequest {
  readonly source: string;
  readonly target: string;
  readonly filesystem: string;
  readonly options: readonly string[];
}

export interface BindRequest {
  readonly source: string;
  readonly target: string;
  readonly readOnly: boolean;
}

/** Mounts of this process's mount namespace. Every method can be repeated. Nothing is unmounted lazily or by force. */
export class Mounts {
  constructor(_collaborators: { readonly run: Run; readonly readMountInfo: () => Promise<string> }) {}

  /** What is mounted at the path itself: the topmost, if several are stacked. */
  async at(_target: string): Promise<Mount | undefined> {
    throw new Error('to come');
  }

  async mount(_request: MountRequest, _signal: AbortSignal): Promise<void> {
    throw new Error('to come');
  }

  async bind(_request: BindRequest, _signal: AbortSignal): Promise<void> {
    throw new Error('to come');
  }

  /** A target that is not mounted, or not there, is unmounted already. The target itself stays. */
  async unmount(_target: string, _signal: AbortSignal): Promise<void> {
    throw new Error('to come');
  }
}

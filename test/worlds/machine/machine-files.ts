/** What every machine boots from: read-only, shared by all machines, made once. */
export interface MachineFiles {
  /** The User-Mode-Linux kernel, an ordinary executable. It must be started with `kernelDir` as its working directory. */
  readonly kernel: string;
  /** Holds the kernel and the C library it was linked with, which may be newer than the host's. */
  readonly kernelDir: string;
  /** Words of the kernel's command line that suit this kernel. */
  readonly kernelArguments: readonly string[];
  /** A tree with LVM, mkfs and cryptsetup programs and the kernel's modules, laid over the host's files in the guest. */
  readonly toolsDir: string;
}

/** Makes the files on first use and tells each step; later calls return at once. Needs no root and installs nothing. */
export async function ensureMachineFiles(_report: (line: string) => void): Promise<MachineFiles> {
  throw new Error('not yet');
}

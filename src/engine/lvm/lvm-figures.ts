/** What LVM had to do since the process started. */
export interface LvmFigures {
  /** Commands by the way they went: through a shell, or as a process each. */
  readonly commands: { shell: number; exec: number };
  /** Shells that were lost, each followed by a new one. */
  shellRestarts: number;
  /** How often a shell could not be started, so that commands ran as processes for a while. */
  shellFailures: number;
}

export function newLvmFigures(): LvmFigures {
  return { commands: { shell: 0, exec: 0 }, shellRestarts: 0, shellFailures: 0 };
}

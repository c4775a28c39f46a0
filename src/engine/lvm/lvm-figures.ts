/** Counters of LVM commands and shells since the process started. */
export interface LvmFigures {
  /** Commands run through a shell, and as processes. */
  readonly commands: { shell: number; exec: number };
  /** Shells that failed and were replaced. */
  shellRestarts: number;
  /** How often a shell could not be started, so that commands ran as processes for a while. */
  shellFailures: number;
}

export function newLvmFigures(): LvmFigures {
  return { commands: { shell: 0, exec: 0 }, shellRestarts: 0, shellFailures: 0 };
}

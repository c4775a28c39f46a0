import type { Screen } from '../base/command.ts';
import { formatBytes } from '../base/quantity.ts';

const barCells = 30n;
/** A file gets a line per tenth, not per half second. */
const tenth = 10n;

/** Shows the progress of long work: one line that is overwritten on a terminal, one line per tenth elsewhere. */
export class Progress implements Disposable {
  readonly #screen: Screen;
  readonly #title: string;
  #shownPercent = -1n;

  constructor(screen: Screen, title: string) {
    this.#screen = screen;
    this.#title = title;
  }

  update(doneBytes: bigint, totalBytes: bigint): void {
    const percent = totalBytes === 0n ? 100n : (doneBytes * 100n) / totalBytes;
    const progress = `${percent}% of ${formatBytes(totalBytes)}`;
    if (this.#screen.isTerminal) {
      const filled = (percent * barCells) / 100n;
      const bar = '█'.repeat(Number(filled)) + '░'.repeat(Number(barCells - filled));
      this.#screen.write(`\r\x1b[K${this.#title} ${bar} ${progress}`);
    } else if (percent / tenth > this.#shownPercent / tenth || this.#shownPercent < 0n) {
      this.#screen.write(`${this.#title}: ${progress}\n`);
    }
    this.#shownPercent = percent;
  }

  note(text: string): void {
    this[Symbol.dispose]();
    this.#screen.write(`${text}\n`);
  }

  /** Clears the line on a terminal. */
  [Symbol.dispose](): void {
    if (this.#screen.isTerminal && this.#shownPercent >= 0n) this.#screen.write('\r\x1b[K');
  }
}

import { formatBytes } from '../base/quantity.ts';
import type { Screen } from './command.ts';

const barCells = 30n;
/** A file gets a line per tenth, not per half second. */
const tenth = 10n;

/** Shows the progress of long work: one line that is overwritten on a terminal, one line per tenth elsewhere. */
export class Progress implements Disposable {
  readonly #screen: Screen;
  readonly #title: string;
  #told = -1n;

  constructor(screen: Screen, title: string) {
    this.#screen = screen;
    this.#title = title;
  }

  update(doneBytes: bigint, totalBytes: bigint): void {
    const percent = totalBytes === 0n ? 100n : (doneBytes * 100n) / totalBytes;
    const figures = `${percent}% of ${formatBytes(totalBytes)}`;
    if (this.#screen.isTerminal) {
      const filled = (percent * barCells) / 100n;
      const bar = '█'.repeat(Number(filled)) + '░'.repeat(Number(barCells - filled));
      this.#screen.write(`\r\x1b[K${this.#title} ${bar} ${figures}`);
    } else if (percent / tenth > this.#told / tenth || this.#told < 0n) {
      this.#screen.write(`${this.#title}: ${figures}\n`);
    }
    this.#told = percent;
  }

  note(text: string): void {
    this[Symbol.dispose]();
    this.#screen.write(`${text}\n`);
  }

  /** Clears the line on a terminal. */
  [Symbol.dispose](): void {
    if (this.#screen.isTerminal && this.#told >= 0n) this.#screen.write('\r\x1b[K');
  }
}

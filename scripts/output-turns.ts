export type Print = (text: string) => void;

/**
 * The output of work that runs side by side, one after the other: the first work prints at once; what each next one prints is
 * held back until those before it have ended.
 */
export class Turns {
  readonly #write: Print;
  #last: Promise<unknown> = Promise.resolve();

  constructor(write: Print = (text) => void process.stdout.write(text)) {
    this.#write = write;
  }

  async take<T>(work: (print: Print) => Promise<T>): Promise<T> {
    const held: string[] = [];
    let print: Print = (text) => void held.push(text);
    const shown = this.#last.then(() => {
      this.#write(held.join(''));
      print = this.#write;
    });
    const done = work((text) => print(text));
    this.#last = Promise.allSettled([shown, done]);
    return done;
  }

  /** Resolves when everything is printed. */
  async end(): Promise<void> {
    await this.#last;
  }
}

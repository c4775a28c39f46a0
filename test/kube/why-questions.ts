import { runCaptured } from '../../src/base/testing/run-captured.ts';
import { type Explanation, type ReasonCode, reasons } from '../../src/explain/explanation.ts';
import { ProblemsFound } from '../../src/plugin/problems-found.ts';
import { kubectlMoorage } from '../../src/plugin/program.ts';
import { eventually, type WaitOptions } from '../../worlds/host/eventually.ts';

/** What `kubectl moorage why -o json` prints. */
export type Why = Explanation & { readonly unread: readonly string[] };

/** `kubectl moorage why`, as a user in a namespace. */
export class Questions {
  readonly #kubeconfig: string;
  readonly #namespace: string;

  constructor(kubeconfig: string, namespace: string) {
    this.#kubeconfig = kubeconfig;
    this.#namespace = namespace;
  }

  async why(word: string): Promise<Why> {
    return JSON.parse(await this.print(word, '-ojson')) as Why;
  }

  /** What is on the screen. */
  async print(...words: readonly string[]): Promise<string> {
    const printed: string[] = [];
    const plugin = kubectlMoorage({ columns: undefined, colours: false });
    const context = { env: { KUBECONFIG: this.#kubeconfig }, printed };
    try {
      await runCaptured(plugin, ['why', ...words, '-n', this.#namespace], context);
    } catch (error) {
      if (!(error instanceof ProblemsFound)) throw error;
    }
    return printed.join('\n');
  }

  /** Waits until the reason is this one, and its sentence has this part; returns the sentence. */
  async becomes(code: ReasonCode, word: string, part = '', options: WaitOptions = {}): Promise<string> {
    let last: Why | undefined;
    try {
      return await eventually(
        `${word}: ${code} (${reasons[code]}) ${part}`,
        async () => {
          last = await this.why(word);
          return last.code === code && last.sentence.includes(part) ? last.sentence : undefined;
        },
        options,
      );
    } catch (error) {
      throw new Error(`${word} is ${last?.code}: ${last?.sentence}`, { cause: error });
    }
  }
}

import { type Program, runProgram } from '../command.ts';

/** What a program prints for these words; throws its error. */
export async function runCaptured(
  program: Program,
  words: readonly string[],
  { env = {}, calledAs = program.name }: { env?: NodeJS.ProcessEnv; calledAs?: string } = {},
): Promise<string> {
  const printed: string[] = [];
  await runProgram(program, calledAs, words, {
    env,
    version: '1.2.3',
    signal: new AbortController().signal,
    print: (text) => printed.push(text),
    screen: { isTerminal: false, write: () => undefined },
  });
  return printed.join('\n');
}

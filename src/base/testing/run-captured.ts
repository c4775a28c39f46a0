import { type Program, runProgram } from '../command.ts';

/** What a program prints for these words; throws its error. `printed` has the output also then. */
export async function runCaptured(
  program: Program,
  words: readonly string[],
  {
    env = {},
    calledAs = program.name,
    printed = [],
  }: { env?: NodeJS.ProcessEnv; calledAs?: string; printed?: string[] } = {},
): Promise<string> {
  await runProgram(program, calledAs, words, {
    env,
    version: '1.2.3',
    signal: new AbortController().signal,
    print: (text) => printed.push(text),
    screen: { isTerminal: false, write: () => undefined },
  });
  return printed.join('\n');
}

/** The process: only this file reads the command line and the environment, and handles signals. */
import { basename } from 'node:path';
import manifest from '../package.json' with { type: 'json' };
import { runProgram } from './base/command.ts';
import { messageOf } from './base/errors.ts';
import { exitCodeOf, Interrupted } from './cli/exit-code.ts';
import { moorage } from './commands.ts';

const stop = new AbortController();
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => stop.abort());

const [, program = '', ...args] = process.argv;
try {
  await runProgram(moorage, basename(program), args, {
    env: process.env,
    version: manifest.version,
    signal: stop.signal,
    print: (text) => process.stdout.write(`${text}\n`),
    screen: { isTerminal: process.stderr.isTTY, write: (text) => process.stderr.write(text) },
  });
} catch (error) {
  // Stopped during the start: an error that this caused is not a failure, unless it is an interruption.
  if (!stop.signal.aborted || error instanceof Interrupted) {
    process.stderr.write(`moorage: ${messageOf(error)}\n`);
    process.exitCode = exitCodeOf(error);
  }
}

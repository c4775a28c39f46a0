/** The process of the plugin: only this file reads the command line, the environment and the terminal. */
import './node-20.ts';
import { setMaxListeners } from 'node:events';
import manifest from '../../package.json' with { type: 'json' };
import { runProgram } from '../base/command.ts';
import { InvalidInput, messageOf } from '../base/errors.ts';
import { ApiTimeout, ApiUnreachable } from '../kube/api-error.ts';
import { ProblemsFound } from './problems-found.ts';
import { kubectlMoorage } from './program.ts';

const stop = new AbortController();
setMaxListeners(0, stop.signal); // many requests at once are no leak; Node 20 would warn about them
process.once('SIGINT', () => stop.abort());

const { stdout, stderr, env } = process;
const terminal = {
  columns: stdout.isTTY ? stdout.columns : undefined,
  colours: stdout.isTTY && !env['NO_COLOR'] && env['TERM'] !== 'dumb',
};
// A reader that has seen enough, such as head, is no failure.
stdout.on('error', () => process.exit(0));

runProgram(kubectlMoorage(terminal), 'kubectl-moorage', process.argv.slice(2), {
  env,
  version: manifest.version,
  signal: stop.signal,
  print: (text) => void stdout.write(`${text}\n`),
  screen: { isTerminal: stderr.isTTY, write: (text) => stderr.write(text) },
}).catch((error: unknown) => {
  if (!(error instanceof ProblemsFound)) stderr.write(`kubectl moorage: ${messageOf(error)}\n`);
  process.exitCode = exitCodeOf(error);
});

/** 1: refused or failed. 2: invalid command line. 3: no answer from the cluster. 4: status, doctor or why found problems. 130: interrupted. */
function exitCodeOf(error: unknown): number {
  if (stop.signal.aborted) return 130;
  if (error instanceof InvalidInput) return 2;
  if (error instanceof ApiUnreachable || error instanceof ApiTimeout) return 3;
  return error instanceof ProblemsFound ? 4 : 1;
}

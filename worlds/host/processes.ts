import * as node from 'node:child_process';
import { promisify } from 'node:util';
import { type Run, run as runCommand } from '../../src/base/exec.ts';
import { environment } from './environment.ts';

/**
 * Node's functions that start programs, and `run` of src/base. They differ in one thing: `env` is not the whole environment,
 * but what is added to `environment()`. Lint forbids the originals in everything that runs on the user's machine.
 */
export const spawn = withEnvironment(node.spawn);
export const spawnSync = withEnvironment(node.spawnSync);
export const fork = withEnvironment(node.fork);
export const execute = withEnvironment(promisify(node.execFile));
export const executeSync = withEnvironment(node.execFileSync);

export const run: Run = (command, options) => runCommand(command, { ...options, env: environment(options.env) });

type Start = (program: string, args?: readonly string[], options?: { readonly env?: NodeJS.ProcessEnv }) => unknown;

function withEnvironment<F>(original: F): F {
  const start = original as Start;
  const wrapped: Start = (program, args = [], options = {}) =>
    start(program, args, { ...options, env: environment(options.env) });
  return wrapped as F;
}

/**
 * node agent.ts STEPS: mounts and unmounts with systemd, as the agent does, in the machine. STEPS is JSON. Prints the
 * outcome of each step as JSON on a line: "" or the error.
 */
import { run } from '../../../../src/base/exec.ts';
import type { MountRequest } from '../../../../src/filesystem/mounts.ts';
import { SystemdMounts } from '../../../../src/node/local-pv/systemd-mounts.ts';

/** `crashAt`: the agent dies instead of running its command with this number, from 0 on. */
export type Step = ({ readonly ensure: MountRequest } | { readonly remove: string }) & { readonly crashAt?: number };

class Crash extends Error {}

const steps = JSON.parse(process.argv[2] ?? '[]') as readonly Step[];
for (const step of steps) {
  let commands = 0;
  const mounts = new SystemdMounts({
    run: (command, options) => {
      if (commands++ === step.crashAt) throw new Crash();
      return run(command, options);
    },
  });
  const { signal } = new AbortController();
  const work = 'ensure' in step ? mounts.ensure(step.ensure, signal) : mounts.remove(step.remove, signal);
  const outcome = await work.then(
    () => '',
    (error: Error) => (error instanceof Crash ? 'crash' : `${error.name}: ${error.message}`),
  );
  console.log(JSON.stringify(outcome));
}

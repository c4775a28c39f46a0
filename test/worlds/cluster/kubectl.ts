import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Runs kubectl as the cluster's administrator and returns what it printed. */
export type Kubectl = (...args: string[]) => Promise<string>;

export function kubectlFor(binary: string, kubeconfig: string): Kubectl {
  return async (...args) => {
    const { stdout } = await run(binary, [`--kubeconfig=${kubeconfig}`, ...args], { maxBuffer: 64 << 20 });
    return stdout;
  };
}

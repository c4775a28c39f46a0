import { execute } from '../host/processes.ts';

/** Some commands wait for an event; one that takes longer than this will never end. */
const timeoutMs = 300_000;

/** Runs kubectl as the cluster's administrator and returns its output. */
export type Kubectl = (...args: string[]) => Promise<string>;

export function kubectlFor(binary: string, kubeconfig: string): Kubectl {
  return async (...args) => {
    const options = { maxBuffer: 64 << 20, timeout: timeoutMs };
    const { stdout } = await execute(binary, [`--kubeconfig=${kubeconfig}`, ...args], options);
    return stdout;
  };
}

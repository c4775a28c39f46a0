import { execute } from '../host/processes.ts';
import type { Namespaces } from './namespaces.ts';

const script = `
  const [url, token] = process.argv.slice(1);
  const answer = await fetch(url, { headers: token ? { authorization: 'Bearer ' + token } : {} });
  console.log(answer.status, await answer.text());`;

/** Status and body of a request from the cluster's network that, like the kubelet's probes, verifies no certificate. */
export async function fetchInside({ enter }: Namespaces, url: string, token = ''): Promise<string> {
  const node = [process.execPath, '--no-warnings', '--input-type=module', '--eval', script, url, token];
  const [command = '', ...words] = [...enter, ...node];
  const env = { NODE_TLS_REJECT_UNAUTHORIZED: '0' };
  return (await execute(command, words, { env })).stdout.trim();
}

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Namespaces } from './namespaces.ts';

const script = `
  const [url, token] = process.argv.slice(1);
  const answer = await fetch(url, { headers: token ? { authorization: 'Bearer ' + token } : {} });
  console.log(answer.status, await answer.text());`;

/** Status and body of what a client in the cluster's network gets that cannot verify certificates, as the kubelet's probes cannot. */
export async function fetchInside({ enter }: Namespaces, url: string, token = ''): Promise<string> {
  const node = [process.execPath, '--no-warnings', '--input-type=module', '--eval', script, url, token];
  const [command = '', ...words] = [...enter, ...node];
  const env = { ...process.env, NODE_TLS_REJECT_UNAUTHORIZED: '0' };
  return (await promisify(execFile)(command, words, { env })).stdout.trim();
}

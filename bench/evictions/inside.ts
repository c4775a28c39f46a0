// Runs in the network namespace of the controller: asks its eviction webhook about pods, as the API server does.
import { Agent, request } from 'node:https';

export interface Answers {
  readonly ms: readonly number[];
  readonly allowed: boolean;
}

const [first = 0, step = 1, count = 0, atOnce = 1] = process.argv.slice(2).map(Number);
const agent = new Agent({ keepAlive: true, maxSockets: atOnce, rejectUnauthorized: false });
const askedInTotal = 2_000;
const warmUp = 200;

function ask(name: string): Promise<boolean> {
  const { promise, resolve, reject } = Promise.withResolvers<boolean>();
  const object = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name, namespace: 'bench' } };
  const review = {
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: { uid: name, namespace: 'bench', name, dryRun: false, operation: 'CREATE', object },
  };
  const headers = { 'content-type': 'application/json' };
  const sent = request('https://127.0.0.1:9443/eviction/validate', { method: 'POST', agent, headers }, (response) => {
    let body = '';
    response.on('data', (chunk: Buffer) => (body += chunk));
    response.on('end', () => resolve((JSON.parse(body) as { response: { allowed: boolean } }).response.allowed));
  });
  sent.on('error', reject);
  sent.end(JSON.stringify(review));
  return promise;
}

const names = Array.from({ length: askedInTotal + warmUp }, (_, i) => `pod-${(first + i * step) % count}`).entries();
const ms: number[] = [];
const answers = new Set<boolean>();
const worker = async () => {
  for (const [i, name] of names) {
    const started = performance.now();
    answers.add(await ask(name));
    if (i >= warmUp) ms.push(performance.now() - started);
  }
};
await Promise.all(Array.from({ length: atOnce }, worker));
agent.destroy();
if (answers.size !== 1) throw new Error('the answers about these pods differ');
console.log(JSON.stringify({ ms, allowed: answers.has(true) } satisfies Answers));

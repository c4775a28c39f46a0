import { hostname } from 'node:os';
import type { Clock } from '../base/clock.ts';
import type { Certificate } from '../http/self-signed.ts';
import type { KubeClient } from '../kube/client.ts';
import { type Decision, TokenReviews } from '../kube/token-reviews.ts';

/** TLS for all paths, and `/metrics` only with a permitted token. The kubelet's probes have no token. */
export interface Secured {
  readonly certificate: Certificate;
  mayGet(token: string, path: string): Promise<Decision>;
}

/** Only for encryption: no client can verify it, so its expiry does not matter either. */
const validForMs = 365 * 24 * 60 * 60_000;

/** Like TopoLVM's --secure-metrics-server. */
export async function securedBy({
  client,
  clock,
}: {
  readonly client: KubeClient;
  readonly clock: Clock;
}): Promise<Secured> {
  const { selfSigned } = await import('../http/self-signed.ts');
  const reviews = new TokenReviews({ client, clock });
  const name = hostname();
  return {
    certificate: await selfSigned({ commonName: name, dnsName: name, nowMs: clock.now(), validForMs }),
    mayGet: (token, path) => reviews.mayGet(token, path),
  };
}

import { hostname } from 'node:os';
import type { Clock } from '../base/clock.ts';
import type { Certificate } from '../http/self-signed.ts';
import type { KubeClient } from '../kube/client.ts';
import { type Decision, TokenReviews } from '../kube/token-reviews.ts';

/** TLS for all paths, and `/metrics` only for those whose token is good for it. The kubelet's probes have no token. */
export interface Secured {
  readonly certificate: Certificate;
  mayGet(token: string, path: string): Promise<Decision>;
}

/** Nobody can verify it, as it is known to nobody: it is there to encrypt. So nobody minds its end either. */
const validForMs = 365 * 24 * 60 * 60_000;

/** As TopoLVM's --secure-metrics-server does. */
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

import type { Clock } from '../base/clock.ts';
import type { KubeClient } from './client.ts';
import { subjectAccessReviews, tokenReviews } from './resource.ts';

/** `busy`: too many reviews are in progress, and this token was not reviewed. */
export type Decision = 'allowed' | 'forbidden' | 'unauthenticated' | 'busy';

export interface TokenReviewsOptions {
  readonly client: Pick<KubeClient, 'create'>;
  readonly clock: Clock;
}

/** How long a revoked permission still works. */
const rememberedMs = 60_000;
/** A client that sends one bad token after another must not block the process's own requests. */
const atOnce = 4;
const timeoutMs = 10_000;

/**
 * Whether the owner of a token may read a non-resource path, such as `/metrics`. The API server decides, as for its own
 * paths, by a TokenReview and a SubjectAccessReview. Only granted permissions are cached, for a minute.
 */
export class TokenReviews {
  readonly #client: Pick<KubeClient, 'create'>;
  readonly #clock: Clock;
  /** Expiry time, by token and path. */
  readonly #allowed = new Map<string, number>();
  #inProgress = 0;

  constructor({ client, clock }: TokenReviewsOptions) {
    this.#client = client;
    this.#clock = clock;
  }

  async mayGet(token: string, path: string): Promise<Decision> {
    const key = `${token} ${path}`;
    if ((this.#allowed.get(key) ?? 0) > this.#clock.monotonic()) return 'allowed';
    if (this.#inProgress >= atOnce) return 'busy';
    this.#inProgress += 1;
    try {
      const decision = await this.#ask(token, path);
      if (decision === 'allowed') this.#remember(key);
      return decision;
    } finally {
      this.#inProgress -= 1;
    }
  }

  async #ask(token: string, path: string): Promise<Decision> {
    const signal = AbortSignal.timeout(timeoutMs);
    const { status: owner } = await this.#client.create(tokenReviews, { spec: { token } }, { signal });
    if (!owner?.authenticated || !owner.user) return 'unauthenticated';
    const { username: user = '', ...others } = owner.user;
    const spec = { user, ...others, nonResourceAttributes: { path, verb: 'get' } };
    const { status } = await this.#client.create(subjectAccessReviews, { spec }, { signal });
    return status?.allowed ? 'allowed' : 'forbidden';
  }

  #remember(key: string): void {
    const nowMs = this.#clock.monotonic();
    for (const [known, untilMs] of this.#allowed) if (untilMs <= nowMs) this.#allowed.delete(known);
    this.#allowed.set(key, nowMs + rememberedMs);
  }
}

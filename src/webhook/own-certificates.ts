import { X509Certificate } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import { KeyedQueue, Requeue } from '../base/keyed-queue.ts';
import type { Log } from '../base/log.ts';
import type { Certificate } from '../http/self-signed.ts';
import type { JsonPatchStep, KubeClient } from '../kube/client.ts';
import { bundleOf, certificatesIn, configurationIn, type WatchedConfiguration } from './trust.ts';

const dayMs = 24 * 60 * 60_000;
const validForMs = 7 * dayMs;
const renewAfterMs = 3 * dayMs;
/** How long a new certificate is published before it is used: the API server learns of it through its own watch. */
const settleMs = 60_000;

export interface OwnCertificatesOptions {
  /** The DNS name of the webhook Service, `<service>.<namespace>.svc`. */
  readonly dnsName: string;
  /** Unique among replicas and stable across restarts: the pod's name. */
  readonly identity: string;
}

export interface OwnCertificatesCollaborators {
  readonly client: KubeClient;
  readonly configurations: readonly WatchedConfiguration[];
  readonly clock: Clock;
  readonly log: Log;
  readonly random: () => number;
}

interface Issued extends Certificate {
  readonly issuedAtMs: number;
}

/**
 * Certificates that this process creates for itself. It adds them to the webhook configurations, beside those of other
 * replicas, so that the API server trusts them. A key never leaves its process, so no Secret is needed.
 * A certificate is renewed long before it expires, and expired ones of any replica are removed.
 */
export class OwnCertificates {
  readonly #options: OwnCertificatesOptions;
  readonly #client: KubeClient;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #configurations: readonly WatchedConfiguration[];
  readonly #queue: KeyedQueue;
  #current: Issued;
  /** Published, but not in use yet. */
  #next: Issued | undefined;
  #onRenewed: (renewed: Certificate) => void = () => {};

  private constructor(options: OwnCertificatesOptions, collaborators: OwnCertificatesCollaborators, first: Issued) {
    const { clock, log, random } = collaborators;
    this.#options = options;
    this.#client = collaborators.client;
    this.#configurations = collaborators.configurations;
    this.#clock = clock;
    this.#log = log;
    this.#current = first;
    this.#queue = new KeyedQueue({ reconcile: () => this.#reconcile(), concurrency: 1, clock, log, random });
  }

  static async start(
    options: OwnCertificatesOptions,
    collaborators: OwnCertificatesCollaborators,
  ): Promise<OwnCertificates> {
    const certificates = new OwnCertificates(options, collaborators, await create(options, collaborators.clock.now()));
    for (const { informer } of collaborators.configurations) {
      informer.onChange(({ object }) => certificates.#queue.add(object.metadata.name));
    }
    return certificates;
  }

  get current(): Certificate {
    return this.#current;
  }

  onRenewed(listener: (renewed: Certificate) => void): void {
    this.#onRenewed = listener;
  }

  async close(): Promise<void> {
    await this.#queue.stop(0);
  }

  async #reconcile(): Promise<Requeue> {
    const nowMs = this.#clock.now();
    const renewAtMs = this.#current.issuedAtMs + renewAfterMs;
    if (nowMs >= renewAtMs) this.#next ??= await create(this.#options, nowMs);
    let hasPublished = false;
    for (const watched of this.#configurations) if (await this.#publish(watched)) hasPublished = true;
    if (hasPublished) return Requeue.never; // the watch triggers the next run
    if (!this.#next) return Requeue.after(renewAtMs - nowMs);

    const useAtMs = this.#next.issuedAtMs + settleMs;
    if (nowMs < useAtMs) return Requeue.after(useAtMs - nowMs);
    this.#current = this.#next;
    this.#next = undefined;
    this.#onRenewed(this.#current);
    return Requeue.after(0); // to remove the old one
  }

  /** True if something was written. */
  async #publish(watched: WatchedConfiguration): Promise<boolean> {
    const configuration = configurationIn(watched);
    if (!configuration) return false; // its webhooks are not called, so no trust is needed
    const { metadata, webhooks = [] } = configuration;
    const { resource } = watched;
    const own = [this.#current, ...(this.#next ? [this.#next] : [])].map(({ cert }) => cert);
    const steps = webhooks.flatMap(({ clientConfig }, index): JsonPatchStep[] => {
      const { identity } = this.#options;
      const trusted = bundleOf(clientConfig);
      const wanted = trustedWith(own, trusted, { identity, nowMs: this.#clock.now() });
      if (wanted === trusted) return [];
      const value = Buffer.from(wanted).toString('base64');
      return [{ op: 'add', path: `/webhooks/${index}/clientConfig/caBundle`, value }];
    });
    if (steps.length === 0) return false;
    const unchanged = { op: 'test', path: '/metadata/resourceVersion', value: metadata.resourceVersion } as const;
    await this.#client.patch(resource, metadata.name, { type: 'json', body: [unchanged, ...steps] });
    this.#log.info(`added the certificate of this process to the ${resource.kind}`);
    return true;
  }
}

async function create({ dnsName, identity }: OwnCertificatesOptions, issuedAtMs: number): Promise<Issued> {
  const { selfSigned } = await import('../http/self-signed.ts');
  return { ...(await selfSigned({ commonName: identity, dnsName, nowMs: issuedAtMs, validForMs })), issuedAtMs };
}

interface Trust {
  readonly identity: string;
  readonly nowMs: number;
}

/**
 * The certificates to trust: ours, and those of others that have not expired. Existing ones keep their order, so that
 * replicas do not keep correcting each other.
 */
export function trustedWith(own: readonly string[], trusted: string, { identity, nowMs }: Trust): string {
  const present = certificatesIn(trusted);
  const kept = present.filter((pem) => {
    if (own.includes(pem)) return true;
    const { validTo, subject } = new X509Certificate(pem);
    return Date.parse(validTo) > nowMs && subject !== `CN=${identity}`; // keys from before a restart are lost
  });
  return [...kept, ...own.filter((pem) => !present.includes(pem))].join('');
}

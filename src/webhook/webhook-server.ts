import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { type Answer, JsonServer } from '../http/json-server.ts';
import type { Certificate } from '../http/self-signed.ts';
import type { KubeClient } from '../kube/client.ts';
import { Certificates } from './certificates.ts';
import { OwnCertificates } from './own-certificates.ts';
import { untrusted, type WatchedConfiguration, watchWebhookConfigurations } from './trust.ts';

/**
 * How long webhooks are served after the process was told to stop: the API server keeps calling a replica until it has
 * learned that the replica is no longer an endpoint of the Service. Part of the 30 s that the kubelet allows in total.
 */
const leaveMs = 5000;

export interface WebhookOptions {
  /** `host:port`; without a host, on every address. */
  readonly address: string;
  /** Directory of a certificate that someone else creates; ignored if `service` is given. */
  readonly certDir: string;
  /** The DNS name of the webhook Service, `<service>.<namespace>.svc`, to create certificates for; empty for none. */
  readonly service: string;
  /** Unique among replicas and stable across restarts. */
  readonly identity: string;
  /** Who answers the AdmissionReviews of each path. */
  readonly answers: Readonly<Record<string, Answer>>;
}

export interface WebhookCollaborators {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Log;
  readonly random: () => number;
}

/** The certificate, now and after each renewal. */
interface ServingCertificates {
  readonly current: Certificate;
  onRenewed(listener: (renewed: Certificate) => void): void;
  close(): Promise<void> | void;
}

interface Parts {
  readonly server: JsonServer;
  readonly certificates: ServingCertificates;
  readonly configurations: readonly WatchedConfiguration[];
  readonly clock: Clock;
}

/** Serves the admission webhooks on their own port, with a certificate that the API server trusts. */
export class WebhookServer {
  readonly address: AddressInfo;
  readonly #parts: Parts;

  private constructor(address: AddressInfo, parts: Parts) {
    this.address = address;
    this.#parts = parts;
  }

  static async start(options: WebhookOptions, collaborators: WebhookCollaborators): Promise<WebhookServer> {
    const { address, service, certDir, identity, answers } = options;
    const { clock, log } = collaborators;
    const configurations = watchWebhookConfigurations(collaborators);
    const certificates: ServingCertificates = service
      ? await OwnCertificates.start({ dnsName: service, identity }, { ...collaborators, configurations })
      : await Certificates.open({ dir: certDir, clock, log });
    const https = createServer(certificates.current);
    certificates.onRenewed((renewed) => {
      https.setSecureContext(renewed);
      log.info('webhooks use a renewed certificate');
    });
    const server = new JsonServer({ server: https, address, answers, log });
    try {
      const listening = await server.listen();
      log.info({ address: listening.address, port: listening.port }, 'serving webhooks');
      for (const { informer } of configurations) informer.start();
      return new WebhookServer(listening, { server, certificates, configurations, clock });
    } catch (error) {
      await certificates.close();
      throw error;
    }
  }

  /** Why the API server cannot use this replica; undefined if it can. */
  unready(): string | undefined {
    const { configurations, certificates } = this.#parts;
    return untrusted(configurations, certificates.current.cert);
  }

  /** Keeps serving for a moment, for clients that do not know yet, and returns after the last answer. */
  async stop(): Promise<void> {
    const { server, certificates, configurations, clock } = this.#parts;
    server.leave();
    await new Promise<void>((resolve) => clock.setTimer(resolve, leaveMs));
    await server.stop();
    await certificates.close();
    await Promise.all(configurations.map(({ informer }) => informer.stop()));
  }
}

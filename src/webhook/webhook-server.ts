import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { JsonServer } from '../http/json-server.ts';
import type { KubeClient } from '../kube/client.ts';
import { type Certificate, Certificates } from './certificates.ts';
import { OwnCertificates } from './own-certificates.ts';
import { PodWebhook } from './pod-webhook.ts';

export interface WebhookOptions {
  /** `host:port`; without a host, on every address. */
  readonly address: string;
  /** Where a certificate is to be found that somebody else makes; not used if `service` is given. */
  readonly certDir: string;
  /** The name that webhooks are called by, `<service>.<namespace>.svc`, to make certificates for; empty for none. */
  readonly service: string;
  /** Unlike that of any other replica, and the same after a restart. */
  readonly identity: string;
}

export interface WebhookCollaborators {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Log;
  readonly random: () => number;
}

/** What to serve with, from now on and whenever it is renewed. */
interface ServingCertificates {
  readonly current: Certificate;
  onRenewed(listener: (renewed: Certificate) => void): void;
  close(): Promise<void> | void;
}

/** The admission webhooks on a port of their own, with the certificate that the API server was told to trust. */
export class WebhookServer {
  readonly address: AddressInfo;
  readonly #server: JsonServer;
  readonly #certificates: ServingCertificates;

  private constructor(address: AddressInfo, server: JsonServer, certificates: ServingCertificates) {
    this.address = address;
    this.#server = server;
    this.#certificates = certificates;
  }

  static async start(options: WebhookOptions, its: WebhookCollaborators): Promise<WebhookServer> {
    const { address, service, certDir, identity } = options;
    const { client, clock, log } = its;
    const certificates: ServingCertificates = service
      ? OwnCertificates.start({ dnsName: service, identity }, its)
      : await Certificates.open({ dir: certDir, clock, log });
    const https = createServer(certificates.current);
    certificates.onRenewed((renewed) => {
      https.setSecureContext(renewed);
      log.info('webhooks have a renewed certificate');
    });
    const pods = new PodWebhook({ client, log });
    const answers = { '/pod/mutate': (review: unknown) => pods.mutate(review) };
    const server = new JsonServer({ server: https, address, answers, log });
    try {
      const listening = await server.listen();
      log.info({ address: listening.address, port: listening.port }, 'serving webhooks');
      return new WebhookServer(listening, server, certificates);
    } catch (error) {
      await certificates.close();
      throw error;
    }
  }

  async stop(): Promise<void> {
    await this.#server.stop();
    await this.#certificates.close();
  }
}

import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { JsonServer } from '../http/json-server.ts';
import type { KubeClient } from '../kube/client.ts';
import { Certificates } from './certificates.ts';
import { PodWebhook } from './pod-webhook.ts';

export interface WebhookOptions {
  /** `host:port`; without a host, on every address. */
  readonly address: string;
  readonly certDir: string;
}

export interface WebhookCollaborators {
  readonly client: Pick<KubeClient, 'get'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** The admission webhooks on a port of their own, with the certificate that the API server was told to trust. */
export class WebhookServer {
  readonly address: AddressInfo;
  readonly #server: JsonServer;
  readonly #certificates: Certificates;

  private constructor(address: AddressInfo, server: JsonServer, certificates: Certificates) {
    this.address = address;
    this.#server = server;
    this.#certificates = certificates;
  }

  static async start(
    { address, certDir }: WebhookOptions,
    { client, clock, log }: WebhookCollaborators,
  ): Promise<WebhookServer> {
    const certificates = await Certificates.open({ dir: certDir, clock, log });
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
      certificates.close();
      throw error;
    }
  }

  async stop(): Promise<void> {
    this.#certificates.close();
    await this.#server.stop();
  }
}

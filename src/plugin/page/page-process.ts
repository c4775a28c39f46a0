import { randomBytes } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import type { KubeClient } from '../../kube/client.ts';
import { answersOf } from './answers.ts';
import { Feed } from './feed.ts';
import { LiveCluster } from './live-cluster.ts';
import { toJson } from './model.ts';
import { PageServer } from './server.ts';
import { explainWith } from './waiting.ts';

export interface PageOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly html: string;
  /** 0 for a free one. */
  readonly port: number;
  /** The name of the cluster, and our version: the page shows them. */
  readonly cluster: string;
  readonly version: string;
}

/** Watches the cluster and serves the page. */
export class Page {
  readonly #cluster: LiveCluster;
  readonly #feed: Feed;
  readonly #server: PageServer;

  constructor({ client, clock, html, port, cluster, version }: PageOptions) {
    this.#cluster = new LiveCluster({
      client,
      clock,
      onChange: (what) => this.#feed.changed(what),
      onFailure: () => this.#feed.failed(),
    });
    this.#feed = new Feed(this.#cluster, clock, explainWith(client));
    this.#server = new PageServer({
      html,
      port,
      token: randomBytes(32).toString('base64url'),
      subscribe: (send) => {
        send(`${toJson({ kind: 'cluster', name: cluster, version })}\n`);
        return this.#feed.subscribe(send);
      },
      answers: answersOf(client, this.#cluster, this.#feed.history),
    });
  }

  /** The address to open. What the cluster has follows when it is read. */
  async start(): Promise<string> {
    const address = await this.#server.listen();
    this.#cluster.start();
    this.#cluster.firstLook().then(
      () => this.#feed.start(),
      () => {}, // never: it only waits
    );
    return address;
  }

  async stop(): Promise<void> {
    this.#feed.stop();
    await this.#server.stop();
    await this.#cluster.stop();
  }
}

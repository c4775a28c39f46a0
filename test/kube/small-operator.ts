import { leave } from '../../src/api/names.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { Informer } from '../../src/kube/informer.ts';
import { type PersistentVolumeClaim, persistentVolumeClaims, type Stored } from '../../src/kube/resource.ts';

/** Leaves volumes as docs/operators.md says: it shows how far it is, and answers once its data is elsewhere. */
export class SmallOperator {
  readonly #client: KubeClient;
  readonly #claims: Informer<PersistentVolumeClaim>;
  #isElsewhere = false;

  constructor(client: KubeClient) {
    this.#client = client;
    this.#claims = new Informer({ client, resource: persistentVolumeClaims, clock: systemClock, log: silentLog });
    this.#claims.onChange(({ kind, object }) => {
      if (kind !== 'deleted') void this.#answer(object).catch(() => {}); // the claim is gone
    });
    this.#claims.start();
  }

  /** Its data is elsewhere from now on. */
  async finish(): Promise<void> {
    this.#isElsewhere = true;
    await Promise.all(this.#claims.list().map((claim) => this.#answer(claim)));
  }

  async stop(): Promise<void> {
    await this.#claims.stop();
  }

  async #answer({ metadata }: Stored<PersistentVolumeClaim>): Promise<void> {
    const { name, namespace, uid, annotations = {} } = metadata;
    const request = annotations[leave.request];
    const answer = this.#isElsewhere
      ? { [leave.acknowledgement]: request }
      : { [leave.message]: '1 of 2 shards is still here' };
    const isSaid = Object.entries(answer).every(([key, value]) => annotations[key] === value);
    if (request === undefined || isSaid) return;
    const body = { metadata: { uid, annotations: answer } };
    await this.#client.patch(persistentVolumeClaims, name, { type: 'merge', body }, { namespace });
  }
}

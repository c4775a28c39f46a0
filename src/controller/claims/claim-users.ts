import type { KubeClient } from '../../kube/client.ts';
import type { Informer } from '../../kube/informer.ts';
import { type Pod, pods, type Stored } from '../../kube/resource.ts';
import { podsOf } from '../moves/observed.ts';

/** What both watches of pods keep. */
interface PodWithClaims {
  readonly namespace: string;
  readonly name: string;
  readonly claimNames: readonly string[];
}

type Watched = Pick<Informer<Pod, PodWithClaims | undefined>, 'list' | 'onChange' | 'whenSynced'>;

interface Collaborators {
  readonly client: Pick<KubeClient, 'list'>;
  /** Pods that have a node, and pods that wait for one. */
  readonly running: Watched;
  readonly waiting: Watched;
}

/** The pods that use a claim: known from watches, so that not all pods of its namespace have to be read. */
export class ClaimUsers {
  readonly #client: Collaborators['client'];
  readonly #watches: readonly Watched[];

  constructor({ client, running, waiting }: Collaborators) {
    this.#client = client;
    this.#watches = [running, waiting];
  }

  /** Those that have not ended, as they are now. One that was created a moment ago may be missing: a change reports it. */
  async of(claim: string, signal: AbortSignal): Promise<readonly Stored<Pod>[]> {
    await Promise.all(this.#watches.map((watch) => watch.whenSynced(signal)));
    const [namespace = '', claimName = ''] = claim.split('/');
    const isUser = (pod: PodWithClaims) => pod.namespace === namespace && pod.claimNames.includes(claimName);
    const names = new Set(
      this.#watches.flatMap((watch) => watch.list().flatMap((pod) => (pod && isUser(pod) ? pod.name : []))),
    );
    const found: Stored<Pod>[] = [];
    for (const name of names) {
      const { items } = await this.#client.list(pods, { namespace, fieldSelector: `metadata.name=${name}`, signal });
      found.push(...podsOf(claimName, items));
    }
    return found;
  }

  /** Calls with each claim, `namespace/name`, of a pod that has changed, and whether the pod is gone. Returns what ends it. */
  onChange(handler: (claim: string, isGone: boolean) => void): () => void {
    const stops = this.#watches.map((watch) =>
      watch.onChange(({ kind, object }) => {
        for (const claim of object?.claimNames ?? []) handler(`${object?.namespace}/${claim}`, kind === 'deleted');
      }),
    );
    return () => {
      for (const stop of stops) stop();
    };
  }
}

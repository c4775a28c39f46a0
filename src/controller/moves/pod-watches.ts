import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import type { KubeClient } from '../../kube/client.ts';
import { Informer } from '../../kube/informer.ts';
import { claimNamesOf, type Pod, pods } from '../../kube/resource.ts';

interface Collaborators {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Log;
}

interface UserOfClaims {
  readonly claims: readonly string[];
}

/**
 * Watches the pods of single namespaces, and only while a move waits for them: a watch of all pods of a cluster would cost
 * more than all moves.
 */
export class PodWatches {
  readonly #collaborators: Collaborators;
  /** Called with `namespace/name` of each claim of a pod that has changed. */
  readonly #onChange: (claim: string) => void;
  readonly #informers = new Map<string, Informer<Pod, UserOfClaims>>();

  constructor(collaborators: Collaborators, onChange: (claim: string) => void) {
    this.#collaborators = collaborators;
    this.#onChange = onChange;
  }

  watchOnly(namespaces: ReadonlySet<string>): void {
    for (const [namespace, informer] of this.#informers) {
      if (namespaces.has(namespace)) continue;
      this.#informers.delete(namespace);
      void informer.stop();
    }
    for (const namespace of namespaces) if (!this.#informers.has(namespace)) this.#watch(namespace);
  }

  #watch(namespace: string): void {
    const project = (pod: Pod) => ({ claims: claimNamesOf(pod) });
    const informer = new Informer({ ...this.#collaborators, resource: pods, namespace, project });
    informer.onChange(({ object }) => {
      for (const claim of object.claims) this.#onChange(`${namespace}/${claim}`);
    });
    this.#informers.set(namespace, informer);
    informer.start();
  }
}

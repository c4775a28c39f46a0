import { logicalVolumes } from '../../api/logical-volume.ts';
import { driverName } from '../../api/names.ts';
import { nodeStorages } from '../../api/node-storage.ts';
import { volumeMoves } from '../../api/volume-move.ts';
import type { Clock } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import { isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { Informer } from '../../kube/informer.ts';
import {
  type KubeObject,
  nodes,
  type PersistentVolumeClaim,
  type Pod,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type Resource,
  type Stored,
  storageClasses,
} from '../../kube/resource.ts';
import { noLog } from '../connect.ts';
import { claimFacts, eitherVolumeFacts, factsOf, nodeFacts, nodeState, podFacts, volumeFacts } from '../facts.ts';
import { moveRow } from '../moves/move-rows.ts';
import { type StatusFacts, withNodes } from '../status.ts';
import { type Failure, toJson } from './model.ts';
import { classFacts, type Subject, subjectsOf, waitingClaim, waitingPod } from './waiting.ts';

/** Everything that the page ever reads of the cluster by watching. Only what the page shows is kept of each object. */
const watched = {
  volumes: { resource: logicalVolumes, project: volumeFacts },
  persistentVolumes: { resource: persistentVolumes, project: eitherVolumeFacts },
  claims: {
    resource: persistentVolumeClaims,
    project: (claim: Stored<PersistentVolumeClaim>) => ({ facts: claimFacts(claim), waiting: waitingClaim(claim) }),
  },
  pods: {
    resource: pods,
    project: (pod: Stored<Pod>) => ({ ...podFacts(pod), waiting: waitingPod(pod) }),
  },
  classes: { resource: storageClasses, project: classFacts },
  nodes: { resource: nodes, project: nodeState },
  reports: { resource: nodeStorages, project: nodeFacts },
  moves: { resource: volumeMoves, project: moveRow },
} as const;

export type Watched = keyof typeof watched;

type Informers = {
  readonly [Name in Watched]: Informer<KubeObject, ReturnType<(typeof watched)[Name]['project']>>;
};

export interface LiveClusterOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  /** Called after each change that the page could show. */
  readonly onChange: (what: Watched) => void;
  /** Called when a watch breaks or works again. */
  readonly onFailure: () => void;
}

/** The objects of a cluster, kept up to date by one watch for each resource. It never writes. */
export class LiveCluster {
  readonly #informers: Informers;
  readonly #failures = new Map<Watched, unknown>();
  readonly #firstLooks = new Map<Watched, PromiseWithResolvers<void>>();

  constructor({ client, clock, onChange, onFailure }: LiveClusterOptions) {
    const informer = <P>(name: Watched, resource: Resource<KubeObject>, project: (object: never) => P) => {
      const firstLook = Promise.withResolvers<void>();
      this.#firstLooks.set(name, firstLook);
      const informer = new Informer<KubeObject, P>({
        ...{ client, resource, clock, log: noLog },
        project: project as (object: Stored<KubeObject>) => P,
        onFailure: (error) => {
          if (error === undefined && !this.#failures.delete(name)) return;
          if (error !== undefined) this.#failures.set(name, error);
          firstLook.resolve();
          onFailure();
        },
      });
      informer.onChange(({ kind, object, previous }) => {
        const isSame = kind === 'updated' && toJson(object) === toJson(previous);
        if (!isSame) onChange(name);
      });
      informer.whenSynced().then(firstLook.resolve, firstLook.resolve);
      return informer;
    };
    this.#informers = Object.fromEntries(
      Object.entries(watched).map(([name, { resource, project }]) => [
        name,
        informer<unknown>(name as Watched, resource, project),
      ]),
    ) as Informers;
  }

  start(): void {
    for (const informer of Object.values(this.#informers)) informer.start();
  }

  async stop(): Promise<void> {
    await Promise.all(Object.values(this.#informers).map((informer) => informer.stop()));
  }

  /** Resolves when each resource was read, or could not be read. */
  async firstLook(): Promise<void> {
    await Promise.all([...this.#firstLooks.values()].map(({ promise }) => promise));
  }

  /** As they are known now; what could not be read is empty, and among the failures. */
  facts(): StatusFacts {
    const { volumes, persistentVolumes, claims, pods, reports, nodes } = this.#informers;
    const facts = factsOf({
      volumes: volumes.list(),
      persistentVolumes: persistentVolumes.list(),
      claims: claims.list().map(({ facts }) => facts),
      pods: pods.list(),
    });
    return withNodes(facts, reports.list(), nodes.list());
  }

  /** The claims and pods that wait for something of ours. */
  waiting(): readonly Subject[] {
    const { claims, pods, classes, persistentVolumes } = this.#informers;
    const served = persistentVolumes
      .list()
      .flatMap(({ provisioned, written }) => (provisioned ?? written)?.claim ?? []);
    return subjectsOf({
      claims: claims.list().flatMap(({ waiting }) => waiting ?? []),
      pods: pods.list().flatMap(({ waiting, claims }) => (waiting ? [{ ...waiting, claims }] : [])),
      classes: classes.list(),
      served: new Set(served),
      driver: driverName,
    });
  }

  moves() {
    return this.#informers.moves.list();
  }

  node(name: string) {
    return this.#informers.reports.get(name);
  }

  /** Whether the cluster does not have the kind, because Moorage is older there. */
  isAbsent(name: 'reports'): boolean {
    return isNotFound(this.#failures.get(name));
  }

  /** What was never read. "Unknown" is not "empty": nothing follows from what is not in it. */
  unread(): ReadonlySet<Watched> {
    const names = Object.keys(watched) as Watched[];
    return new Set(names.filter((name) => !this.#informers[name].synced && !isNotFound(this.#failures.get(name))));
  }

  /**
   * By what is wrong: an API server that is gone is one failure. A kind that the cluster does not have is none: there is
   * nothing of it.
   */
  failures(): readonly Failure[] {
    const wrong = [...this.#failures].filter(([, error]) => !isNotFound(error));
    const words = ([, error]: (typeof wrong)[number]) => messageOf(error).replace(/ (to )?GET [^\s:]+:/, ':');
    return [...Map.groupBy(wrong, words)].map(([message, all]) => ({
      resources: all.map(([name]) => watched[name].resource.plural),
      message,
    }));
  }
}

import type { Clock, Timer } from '../../base/clock.ts';
import { codeOf, messageOf } from '../../base/errors.ts';
import type { KubeClient } from '../../kube/client.ts';
import { keyOf, type PersistentVolumeClaim, type Pod, type StorageClass, type Stored } from '../../kube/resource.ts';
import { explained } from '../why/explained.ts';
import { Reader } from '../why/read.ts';
import type { Waiting } from './model.ts';

/** A claim or a pod that has not got what it needs. */
export interface Subject {
  readonly kind: 'claim' | 'pod';
  readonly namespace: string;
  readonly name: string;
  readonly since: string;
}

/** Of a claim that is not bound, or is being deleted; undefined for others. */
export function waitingClaim(claim: Stored<PersistentVolumeClaim>) {
  const { metadata, spec, status } = claim;
  const isDeleting = metadata.deletionTimestamp !== undefined;
  if (status?.phase === 'Bound' && !isDeleting) return undefined;
  return {
    namespace: metadata.namespace ?? '',
    name: metadata.name,
    since: metadata.deletionTimestamp ?? metadata.creationTimestamp,
    storageClass: spec?.storageClassName,
  };
}

/** Of a pod that does not run yet. */
export function waitingPod({ metadata, status }: Stored<Pod>) {
  if (status?.phase !== 'Pending') return undefined;
  return { namespace: metadata.namespace ?? '', name: metadata.name, since: metadata.creationTimestamp };
}

export function classFacts({ metadata, provisioner }: Stored<StorageClass>) {
  return { name: metadata.name, provisioner };
}

export interface WaitingFacts {
  readonly claims: readonly NonNullable<ReturnType<typeof waitingClaim>>[];
  /** Each with the claims that it uses, as `namespace/name`. */
  readonly pods: readonly (NonNullable<ReturnType<typeof waitingPod>> & { readonly claims: readonly string[] })[];
  readonly classes: readonly ReturnType<typeof classFacts>[];
  /** The claims that have a volume of ours. */
  readonly served: ReadonlySet<string>;
  readonly driver: string;
}

/**
 * Claims of our classes, and of classes that do not exist: ours may have been meant. Claims of other drivers are not ours to
 * explain. A pod is listed if its claims have their volumes; otherwise they say why it waits. The longest wait is first.
 */
export function subjectsOf({ claims, pods, classes, served, driver }: WaitingFacts): readonly Subject[] {
  const others = new Set(classes.filter(({ provisioner }) => provisioner !== driver).map(({ name }) => name));
  const own = claims.filter((claim) => claim.storageClass && !others.has(claim.storageClass));
  const waiting = new Set(claims.map(({ namespace, name }) => `${namespace}/${name}`));
  const isOurs = (names: readonly string[]) =>
    names.some((name) => served.has(name)) && !names.some((name) => waiting.has(name));
  return [
    ...own.map(({ namespace, name, since }) => ({ kind: 'claim' as const, namespace, name, since })),
    ...pods
      .filter((pod) => isOurs(pod.claims))
      .map(({ namespace, name, since }) => ({ kind: 'pod' as const, namespace, name, since })),
  ].toSorted((a, b) => a.since.localeCompare(b.since));
}

/** Explains some subjects by what the cluster has now. */
export type Explain = (subjects: readonly Subject[], signal: AbortSignal) => Promise<readonly Waiting[]>;

/** As `kubectl moorage why` does. What is gone by now waits no longer. */
export function explainWith(client: KubeClient): Explain {
  return async (subjects, signal) => {
    const reader = new Reader(client, signal);
    const rows: Waiting[] = [];
    for (const subject of subjects) {
      const { kind, namespace, name } = subject;
      const word = `${kind === 'claim' ? 'pvc' : 'pod'}/${name}`;
      try {
        const { subject: _, ...reason } = await explained(word, namespace, reader);
        rows.push({ ...subject, ...reason });
      } catch (error) {
        if (codeOf(error) !== 'NotFound') throw error;
      }
    }
    return rows;
  };
}

/** Explaining reads lists: not after every change. */
const restMs = 5_000;
/** Explaining each of hundreds would read the nodes hundreds of times. */
const mostExplained = 30;

/** Why subjects wait. It explains again after changes, one pass at a time, and shows the last answer meanwhile. */
export class Explanations {
  readonly #explain: Explain;
  readonly #clock: Clock;
  readonly #onChange: () => void;
  readonly #stop = new AbortController();
  #rows: readonly Waiting[] = [];
  #subjects: readonly Subject[] = [];
  #isRunning = false;
  #isOutdated = false;
  #next: Timer | undefined;

  constructor(explain: Explain, clock: Clock, onChange: () => void) {
    this.#explain = explain;
    this.#clock = clock;
    this.#onChange = onChange;
  }

  /** A subject that is not explained yet is listed without a reason. */
  rows(): readonly Waiting[] {
    const known = new Map(this.#rows.map((row) => [idOf(row), row]));
    return this.#subjects.flatMap((subject, i) => {
      const row = known.get(idOf(subject));
      if (row) return row.code === 'Fine' ? [] : [row];
      return [i < mostExplained ? unexplained(subject, 'looking for the reason') : pointing(subject)];
    });
  }

  changed(subjects: readonly Subject[]): void {
    this.#subjects = subjects;
    this.#isOutdated = true;
    if (!this.#isRunning && !this.#next) void this.#run();
  }

  stop(): void {
    this.#stop.abort();
    this.#next?.cancel();
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    this.#isOutdated = false;
    const subjects = this.#subjects.slice(0, mostExplained);
    try {
      this.#rows = subjects.length > 0 ? await this.#explain(subjects, this.#stop.signal) : [];
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      const sentence = `the reason is unknown: ${messageOf(error)}`;
      const known = new Map(this.#rows.filter(({ code }) => code !== '').map((row) => [idOf(row), row]));
      this.#rows = subjects.map((subject) => known.get(idOf(subject)) ?? unexplained(subject, sentence));
    }
    this.#isRunning = false;
    this.#next = this.#clock.setTimer(() => {
      this.#next = undefined;
      if (this.#isOutdated) void this.#run();
    }, restMs);
    this.#onChange();
  }
}

function unexplained(subject: Subject, sentence: string): Waiting {
  return { ...subject, code: '', sentence, evidence: [], remedy: [] };
}

function pointing(subject: Subject): Waiting {
  const { kind, namespace, name } = subject;
  const row = unexplained(subject, `only the ${mostExplained} that wait longest are explained here`);
  return { ...row, remedy: [`kubectl moorage why ${kind === 'claim' ? 'pvc' : 'pod'}/${name} -n ${namespace}`] };
}

function idOf({ kind, namespace, name }: Subject): string {
  return `${kind}/${keyOf({ metadata: { namespace, name } })}`;
}

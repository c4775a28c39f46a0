import type { Informer } from '../../src/kube/informer.ts';
import type { KubeObject } from '../../src/kube/resource.ts';

/** Everything that an informer reported, in order: `added a`, `updated a`, … */
export class RecordedChanges<T extends KubeObject> {
  readonly #lines: string[] = [];
  readonly #states = new Set<string>();
  readonly reportedTwice: string[] = [];

  constructor(informer: Informer<T>) {
    informer.onChange(({ kind, object: { metadata } }) => {
      this.#lines.push(`${kind} ${metadata.name}`);
      const state = `${kind} ${metadata.name} ${metadata.uid} ${metadata.resourceVersion}`;
      if (this.#states.has(state)) this.reportedTwice.push(state);
      this.#states.add(state);
    });
  }

  /** What was reported since the last call. */
  news(): string[] {
    return this.#lines.splice(0);
  }
}

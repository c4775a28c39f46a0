import { InvalidInput } from '../base/errors.ts';
import type { Informer } from '../kube/informer.ts';
import type { ConfigMap } from '../kube/resource.ts';
import { type Defaults, parseDefaults } from './defaults.ts';

/** The defaults in a ConfigMap, read live. Invalid ones are not used: the last valid ones stay in effect. */
export class LiveDefaults {
  readonly #name: string;
  #valid: Defaults | undefined;
  #fault: InvalidInput;

  constructor(name: string, watched: Pick<Informer<ConfigMap>, 'onChange'>) {
    this.#name = name;
    this.#fault = new InvalidInput(`there is no ConfigMap ${name} with the defaults for static volumes; create it`);
    watched.onChange(({ kind, object }) => {
      if (kind !== 'deleted') this.#read(object);
    });
  }

  /** Throws if there were no valid ones since this process started: then no new volume may be created. */
  get(): Defaults {
    if (!this.#valid) throw this.#fault;
    return this.#valid;
  }

  #read({ data = {} }: ConfigMap): void {
    try {
      this.#valid = parseDefaults(data);
    } catch (error) {
      if (!(error instanceof InvalidInput)) throw error;
      this.#fault = new InvalidInput(`the ConfigMap ${this.#name} has ${error.message}`);
    }
  }
}

import { InvalidInput } from './errors.ts';
import { parseQuantity, toQuantity } from './quantity.ts';

/** How the text of a flag becomes a value. */
export interface FlagType<T> {
  /** The placeholder of the value in the help; empty for a flag that needs no value. */
  readonly placeholder: string;
  /** Throws an error with the allowed values if the text is invalid. */
  parse(text: string): T;
  /** How the help shows a value; as JSON if not given. */
  show?(value: T): string;
  /** All values there are, for completion. */
  readonly choices?: readonly string[];
}

export interface Flag<T> {
  readonly name: string;
  readonly type: FlagType<T>;
  /** Without one the flag is required. */
  readonly default?: NoInfer<T>;
  /** The environment variable to use if the flag is not given; an empty one counts as not set. */
  readonly env?: string;
  readonly description: string;
  /** Other accepted names, for compatibility. */
  readonly aliases?: readonly string[];
  /** A one-letter name. */
  readonly short?: string;
  /** Values for completion that must be looked up. */
  readonly suggest?: Suggest;
}

/** Gets the flags that are already typed, by name. A failure means that there are no suggestions. */
export type Suggest = (typed: ReadonlyMap<string, string>, env: NodeJS.ProcessEnv) => Promise<readonly string[]>;

/** Declares a flag; its default must be of its type. */
export function flag<T>(declaration: Flag<T>): Flag<T> {
  return declaration;
}

export type Flags = Readonly<Record<string, Flag<unknown>>>;

export type FlagValues<F extends Flags> = { readonly [K in keyof F]: F[K] extends Flag<infer T> ? T : never };

export const text: FlagType<string> = { placeholder: 'text', parse: (value) => value };

/** Of a file or directory; shells complete it. */
export const path: FlagType<string> = { placeholder: 'path', parse: (value) => value };

const unitsMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 } as const;

/** In Go's format, such as `15s` or `1m30s`; in milliseconds. */
export const duration: FlagType<number> = {
  placeholder: 'duration',
  parse(value) {
    const parts = [...value.matchAll(/(\d{1,9})(ms|[smh])/g)];
    if (value === '' || parts.map(([part]) => part).join('') !== value) {
      throw new InvalidInput('use a duration such as 15s or 1m30s');
    }
    return parts.reduce((sum, [, count, unit]) => sum + Number(count) * unitsMs[unit as keyof typeof unitsMs], 0);
  },
  show: (milliseconds) => (milliseconds % 1000 === 0 ? `${milliseconds / 1000}s` : `${milliseconds}ms`),
};

export const onOff: FlagType<boolean> = {
  placeholder: '',
  parse(value) {
    if (/^(true|1)$/i.test(value)) return true;
    if (/^(false|0)$/i.test(value)) return false;
    throw new InvalidInput('use true or false');
  },
};

/** A Kubernetes quantity, such as `10Gi`; in bytes. */
export const quantity: FlagType<bigint> = { placeholder: 'quantity', parse: parseQuantity, show: toQuantity };

/** Separated by commas. */
export const list: FlagType<readonly string[]> = {
  placeholder: 'list',
  parse: (value) =>
    value
      .split(',')
      .map((part) => part.trim())
      .filter((part) => part !== ''),
  show: (values) => JSON.stringify(values.join(',')),
};

/** Quantities by name, such as `ssd=10Gi,hdd=1Ti`; in bytes. */
export const quantities: FlagType<ReadonlyMap<string, bigint>> = {
  placeholder: 'name=quantity,...',
  parse: (value) =>
    new Map(
      list.parse(value).map((part) => {
        const [, name, amount] = /^([^=]+)=(.+)$/.exec(part) ?? [];
        if (name === undefined || amount === undefined) throw new InvalidInput('use a list such as ssd=10Gi,hdd=1Ti');
        return [name, parseQuantity(amount)];
      }),
    ),
  show: (values) => JSON.stringify([...values].map(([name, bytes]) => `${name}=${toQuantity(bytes)}`).join(',')),
};

export function oneOf<const T extends string>(choices: readonly T[]): FlagType<T> {
  return {
    placeholder: choices.join('|'),
    choices,
    parse(value) {
      const choice = choices.find((candidate) => candidate === value);
      if (choice === undefined) throw new InvalidInput(`use one of ${choices.join(', ')}`);
      return choice;
    },
  };
}

import { parseArgs } from 'node:util';
import { InvalidInput, messageOf } from './errors.ts';
import { parseQuantity, toQuantity } from './quantity.ts';

/** How the text of a flag becomes a value. */
export interface FlagType<T> {
  /** The placeholder of the value in the help; empty for a flag that needs no value. */
  readonly placeholder: string;
  /** Throws an error with the allowed values if the text is invalid. */
  parse(text: string): T;
  /** How the help shows a value; as JSON if not given. */
  show?(value: T): string;
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
}

/** Declares a flag; its default must be of its type. */
export function flag<T>(declaration: Flag<T>): Flag<T> {
  return declaration;
}

export type Flags = Readonly<Record<string, Flag<unknown>>>;

export type FlagValues<F extends Flags> = { readonly [K in keyof F]: F[K] extends Flag<infer T> ? T : never };

export const text: FlagType<string> = { placeholder: 'text', parse: (value) => value };

export const integer: FlagType<number> = {
  placeholder: 'number',
  parse(value) {
    if (!/^[+-]?\d{1,15}$/.test(value)) throw new InvalidInput('use a whole number');
    return Number(value);
  },
};

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

export function oneOf<const T extends string>(choices: readonly T[]): FlagType<T> {
  return {
    placeholder: choices.join('|'),
    parse(value) {
      const choice = choices.find((candidate) => candidate === value);
      if (choice === undefined) throw new InvalidInput(`use one of ${choices.join(', ')}`);
      return choice;
    },
  };
}

/** Reads the command line, then the environment, then the defaults. Reports the first mistake with its remedy. */
export function parseFlags<const F extends Flags>(
  flags: F,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): FlagValues<F> {
  return parseCommandLine(flags, [], args, env).flags;
}

export interface CommandLine<F extends Flags> {
  readonly flags: FlagValues<F>;
  readonly words: readonly string[];
}

/**
 * The same for a command with positional arguments: one for each name, and any number more if the last name ends in
 * `...`.
 */
export function parseCommandLine<const F extends Flags>(
  flags: F,
  wordNames: readonly string[],
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): CommandLine<F> {
  const { given, words } = readArguments(flags, args);
  const values: Record<string, unknown> = {};
  for (const [key, flag] of Object.entries(flags)) {
    const fromEnvironment = flag.env && env[flag.env];
    const argument = given.get(flag.name);
    if (argument !== undefined) values[key] = parseValue(flag, argument, `--${flag.name}`);
    else if (flag.env && fromEnvironment)
      values[key] = parseValue(flag, fromEnvironment, `environment variable ${flag.env}`);
    else if ('default' in flag) values[key] = flag.default;
    else throw new InvalidInput(`--${flag.name} is required; pass it${flag.env ? ` or set ${flag.env}` : ''}`);
  }
  checkWords(wordNames, words);
  return { flags: values as FlagValues<F>, words };
}

function checkWords(names: readonly string[], words: readonly string[]): void {
  const missing = names[words.length];
  if (missing !== undefined) throw new InvalidInput(`${missing.replace(/\.*$/, '')} is missing; see --help`);
  const unexpected = names.at(-1)?.endsWith('...') ? undefined : words[names.length];
  if (unexpected !== undefined) throw new InvalidInput(`unexpected argument ${JSON.stringify(unexpected)}; see --help`);
}

export function asksForHelp(args: readonly string[]): boolean {
  return args.includes('--help') || args.includes('-h');
}

/** One paragraph per flag: its syntax, description, default and environment variable. */
export function describeFlags(flags: Flags): string {
  return Object.values(flags)
    .map((flag) => {
      const names = [
        ...(flag.short ? [`-${flag.short}`] : []),
        ...[flag.name, ...(flag.aliases ?? [])].map((name) => `--${name}`),
      ].join(', ');
      const facts = [
        'default' in flag ? `default ${shown(flag)}` : 'required',
        ...(flag.env ? [`environment ${flag.env}`] : []),
      ];
      const value = flag.type.placeholder && ` <${flag.type.placeholder}>`;
      return `  ${names}${value}\n      ${flag.description} (${facts.join(', ')})`;
    })
    .join('\n');
}

function shown({ type, default: value }: Flag<unknown>): string {
  return type.show ? type.show(value) : JSON.stringify(value);
}

function parseValue(flag: Flag<unknown>, value: string, where: string): unknown {
  try {
    return flag.type.parse(value);
  } catch (error) {
    throw new InvalidInput(`invalid ${where} ${JSON.stringify(value)}: ${messageOf(error)}`, { cause: error });
  }
}

interface Arguments {
  /** Text by flag name; the last of several values wins. */
  readonly given: ReadonlyMap<string, string>;
  readonly words: readonly string[];
}

function readArguments(flags: Flags, args: readonly string[]): Arguments {
  const byName = new Map<string, Flag<unknown>>();
  for (const flag of Object.values(flags)) {
    for (const name of [flag.name, ...(flag.aliases ?? [])]) byName.set(name, flag);
  }
  const options = Object.fromEntries(
    [...byName].map(([name, flag]) => [
      name,
      {
        type: flag.type.placeholder ? ('string' as const) : ('boolean' as const),
        ...(flag.short && name === flag.name && { short: flag.short }),
      },
    ]),
  );
  // Not strict, so that error messages are ours, and `--flag=false` is allowed for a boolean flag.
  const { tokens } = parseArgs({ args: [...args], options, strict: false, tokens: true, allowPositionals: true });

  const given = new Map<string, string>();
  const words: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') words.push(token.value);
    if (token.kind !== 'option') continue;
    const flag = byName.get(token.name);
    const isWritten = token.rawName.startsWith('--') || token.rawName === `-${flag?.short}`;
    if (!flag || !isWritten) throw new InvalidInput(`unknown flag ${token.rawName}; see --help`);
    given.set(flag.name, valueOf(token, flag));
  }
  return { given, words };
}

function valueOf(
  token: { readonly rawName: string; readonly value: string | undefined; readonly inlineValue: boolean | undefined },
  flag: Flag<unknown>,
): string {
  if (token.value === undefined && flag.type.placeholder === '') return 'true';
  // `--a --b` is usually a forgotten value; a value that starts with dashes can be given as `--a=--b`.
  const swallowedFlag = !token.inlineValue && token.value?.startsWith('--');
  if (token.value === undefined || swallowedFlag) {
    throw new InvalidInput(`${token.rawName} needs a value; write ${token.rawName}=<${flag.type.placeholder}>`);
  }
  return token.value;
}

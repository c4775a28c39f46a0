import { InvalidInput } from '../base/errors.ts';
import { asksForHelp, describeFlags, type Flags } from '../base/flags.ts';

/** What a command gets from its environment. */
export interface Surroundings {
  readonly env: NodeJS.ProcessEnv;
  readonly version: string;
  /** Aborts when the process must stop. */
  readonly signal: AbortSignal;
  /** The result, on standard output. */
  readonly print: (text: string) => void;
  /** Everything else for the user, on standard error. */
  readonly screen: Screen;
}

/** Standard error: a terminal, where a line can be overwritten, or a file. */
export interface Screen {
  readonly isTerminal: boolean;
  write(text: string): void;
}

export interface Command {
  readonly summary: string;
  /** TopoLVM's name for the command. */
  readonly alias?: string;
  /** The positional arguments, in order. */
  readonly words?: readonly string[];
  readonly flags?: Flags;
  readonly run?: (args: readonly string[], surroundings: Surroundings) => Promise<void>;
  /** Subcommands: `moorage volume ls`. */
  readonly commands?: Commands;
}

export type Commands = Readonly<Record<string, Command>>;

/** `calledAs` is the name of the program file: a link with the name of a TopoLVM program selects its command. */
export async function runCommand(
  commands: Commands,
  calledAs: string,
  args: readonly string[],
  surroundings: Surroundings,
): Promise<void> {
  const words = find(commands, calledAs) ? [calledAs, ...args] : args;
  if (words[0] === '--version') return surroundings.print(surroundings.version);
  await descend({ summary: 'local LVM volumes for Kubernetes', commands }, ['moorage'], words, surroundings);
}

async function descend(
  command: Command,
  path: readonly string[],
  args: readonly string[],
  surroundings: Surroundings,
): Promise<void> {
  const [word, ...rest] = args;
  const next = word === undefined ? undefined : find(command.commands ?? {}, word);
  if (next) return descend(next.command, [...path, next.name], rest, surroundings);
  const isLost = !command.run && word !== undefined && !word.startsWith('-');
  if (isLost) throw new InvalidInput(`unknown command ${JSON.stringify(word)}; see ${path.join(' ')} --help`);
  if (!command.run || asksForHelp(args)) return surroundings.print(helpOn(command, path));
  await command.run(args, surroundings);
}

function find(commands: Commands, word: string): { readonly name: string; readonly command: Command } | undefined {
  const entry = Object.entries(commands).find(([name, { alias }]) => name === word || alias === word);
  return entry && { name: entry[0], command: entry[1] };
}

export function helpOn({ summary, words = [], flags, run, commands }: Command, path: readonly string[]): string {
  const name = path.join(' ');
  const title = path.length === 1 ? `Moorage: ${summary}.` : `${name}: ${summary}.`;
  const usage = [
    ...(run ? [[name, ...words, ...(flags ? ['[flags]'] : [])].join(' ')] : []),
    ...(commands ? [`${name} <command> [flags]`] : []),
  ];
  const rows = Object.entries(commands ?? {}).map(([key, { alias, summary }]) => [
    alias ? `${key}, ${alias}` : key,
    summary,
  ]);
  const width = Math.max(...rows.map(([names = '']) => names.length)) + 2;
  return [
    title,
    '',
    ...usage.map((line, i) => `${i === 0 ? 'Usage:' : '      '} ${line}`),
    ...(commands
      ? ['', 'Commands:', ...rows.map(([names = '', summary]) => `  ${names.padEnd(width)}${summary}`)]
      : []),
    ...(flags ? ['', 'Flags:', describeFlags(flags)] : []),
    ...(commands ? ['', `Use "${name} <command> --help" for more about a command.`] : []),
  ].join('\n');
}

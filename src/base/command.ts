import { Command as Commander, CommanderError, type Help, Option } from 'commander';
import { InvalidInput, messageOf } from './errors.ts';
import type { Flag, Flags, FlagValues, Suggest } from './flags.ts';

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

export interface Command<F extends Flags = Flags> {
  readonly summary: string;
  /** TopoLVM's name for the command. */
  readonly alias?: string;
  /** The positional arguments, in order; one in brackets is optional, a last one that ends in `...` may be repeated. */
  readonly words?: readonly string[];
  /** Values of the arguments for completion. */
  readonly suggest?: Suggest;
  readonly flags?: F;
  run?(flags: FlagValues<F>, surroundings: Surroundings, words: readonly string[]): Promise<void>;
  /** Command lines, for the help. */
  readonly examples?: readonly string[];
  /** Subcommands: `moorage volume ls`. */
  readonly commands?: Commands;
}

export type Commands = Readonly<Record<string, Command>>;

/** Declares a command; `run` gets the values of its flags with their types. */
export function command<const F extends Flags>(declaration: Command<F>): Command {
  return declaration;
}

/** What is installed under one name: `moorage`, with all its commands. */
export interface Program {
  /** Of its file. */
  readonly name: string;
  /** How people call it, if not by its name. */
  readonly calledAs?: string;
  readonly summary: string;
  readonly commands: Commands;
}

/** `file` is the name of the program file: a link with the name of a TopoLVM program selects its command. */
export async function runProgram(
  program: Program,
  file: string,
  args: readonly string[],
  surroundings: Surroundings,
): Promise<void> {
  const isCommand = Object.entries(program.commands).some(([name, { alias }]) => [name, alias].includes(file));
  const words = isCommand ? [file, ...args] : args;
  const commands = { ...program.commands, completion: completionCommand(program.name) };
  if (words[0] === 'complete') return complete(commands, words.slice(1), surroundings);
  const parser = new CommandParser({ ...program, commands }, [program.calledAs ?? program.name], surroundings);
  parser.version(surroundings.version, '--version', 'Version of this program');
  try {
    await parser.parseAsync(words, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error; // else help or the version was printed
  }
}

function completionCommand(program: string): Command {
  return {
    summary: 'print a script that completes commands and flags in a shell',
    words: ['bash|zsh|fish'],
    async run(_flags, { print }, [shell = '']) {
      const { completionScript } = await import('./completion.ts');
      print(completionScript(program, shell));
    },
  };
}

/** What the script of a shell calls. */
async function complete(commands: Commands, words: readonly string[], { print, env }: Surroundings): Promise<void> {
  const { completions } = await import('./completion.ts');
  print(await completions(commands, words[0] === '--' ? words.slice(1) : words, env));
}

/** A command of commander, built from ours. */
class CommandParser extends Commander {
  /** How a flag without a value is written with one. */
  readonly #switches = new Map<string, string>();

  constructor(command: Command, path: readonly string[], surroundings: Surroundings) {
    super(path.at(-1));
    const { summary, alias, words = [], flags = {}, examples = [], commands = {} } = command;
    const takesFlags = Object.keys(flags).length > 0;
    this.summary(summary).description(`${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`);
    if (alias) this.alias(alias);
    this.usage([...(command.run ? words : ['<command>']), ...(takesFlags ? ['[flags]'] : [])].join(' '));
    this.optionsGroup('Flags:').helpOption('-h, --help', 'Help on this command').helpCommand(false);
    this.configureHelp(helpFormat).enablePositionalOptions().combineFlagAndOptionalValue(false);
    this.exitOverride((error) => {
      throw error.exitCode === 0 || error.code === 'commander.help' ? error : mistake(error, path);
    });
    if (examples.length > 0)
      this.addHelpText('after', ['', 'Examples:', ...examples.map((line) => `  ${line}`)].join('\n'));
    const print = (text: string) => surroundings.print(text.trimEnd());
    this.configureOutput({ writeOut: print, writeErr: print, outputError: () => undefined });

    for (const word of words) this.argument(word.startsWith('[') ? word : `<${word}>`);
    for (const flag of Object.values(flags)) this.#addFlag(flag);
    for (const [name, each] of Object.entries(commands)) {
      this.addCommand(new CommandParser(each, [...path, name], surroundings));
    }
    if (command.run) {
      this.action(async () => {
        await command.run?.(this.#values(flags, surroundings.env), surroundings, this.args);
      });
    }
  }

  #addFlag(flag: Flag<unknown>): void {
    const { name, short, aliases = [], type } = flag;
    const names = [...(short ? [`-${short}`] : []), ...aliases.map((alias) => `--${alias}`), `--${name}`];
    const isSwitch = type.placeholder === '';
    const option = new Option(
      `${names.join(', ')} ${isSwitch ? '[value]' : `<${type.placeholder}>`}`,
      description(flag),
    );
    option.argParser((value) => parseValue(flag, value, `--${name}`));
    if (isSwitch) {
      option.preset('true');
      for (const each of names) this.#switches.set(each, `--${name}=true`);
    }
    this.addOption(option);
  }

  override parseOptions(args: string[]) {
    const end = args.includes('--') ? args.indexOf('--') : args.length;
    return super.parseOptions(args.map((arg, i) => (i < end ? this.#clearer(arg) : arg)));
  }

  /** Commander would take the word after a switch as its value, and find no suggestion for `--flga=value`. */
  #clearer(arg: string): string {
    const [name = ''] = arg.split('=');
    const isUnknown = name.startsWith('--') && !this.options.some(({ short, long }) => [short, long].includes(name));
    return this.#switches.get(arg) ?? (isUnknown && this.commands.length === 0 ? name : arg);
  }

  /** From the command line, else from the environment, else the default. */
  #values(flags: Flags, env: NodeJS.ProcessEnv): Record<string, unknown> {
    const valueOf = (flag: Flag<unknown>): unknown => {
      const option = this.options.find(({ long }) => long === `--${flag.name}`)?.attributeName() ?? '';
      if (this.getOptionValueSource(option)) return this.getOptionValue(option);
      const fromEnvironment = flag.env && env[flag.env];
      if (fromEnvironment) return parseValue(flag, fromEnvironment, `environment variable ${flag.env}`);
      if ('default' in flag) return flag.default;
      const how = flag.short ? `-${flag.short} ${flag.type.placeholder.toUpperCase()}` : 'it';
      throw new InvalidInput(`--${flag.name} is required; pass ${how}${flag.env ? ` or set ${flag.env}` : ''}`);
    };
    return Object.fromEntries(Object.entries(flags).map(([key, flag]) => [key, valueOf(flag)]));
  }
}

function parseValue(flag: Flag<unknown>, value: string, where: string): unknown {
  // `--a --b` is a forgotten value.
  if (value.startsWith('--'))
    throw new InvalidInput(`${where} needs a value; write ${where}=<${flag.type.placeholder}>`);
  try {
    return flag.type.parse(value);
  } catch (error) {
    throw new InvalidInput(`invalid ${where} ${JSON.stringify(value)}: ${messageOf(error)}`, { cause: error });
  }
}

/** An error of commander as ours: one line, with what to do. */
function mistake({ message }: CommanderError, path: readonly string[]): InvalidInput {
  const [, name, placeholder] = /(--\S+) (<.*>)' argument missing/.exec(message) ?? [];
  if (name) return new InvalidInput(`${name} needs a value; write ${name}=${placeholder}`);
  const [what = '', suggestion] = message
    .replace(/^error: /, '')
    .replace(/\boption\b/, 'flag')
    .split('\n');
  const remedy = suggestion ? suggestion.replace(/^\(D(.*)\)$/, 'd$1') : `see ${path.join(' ')} --help`;
  return new InvalidInput(`${what.replace(/\.$/, '')}; ${remedy}`);
}

/** A default that says nothing is left out. */
function description({ description, type, env, ...flag }: Flag<unknown>): string {
  const value = flag.default === undefined ? '' : (type.show?.(flag.default) ?? JSON.stringify(flag.default));
  const facts = [
    ...('default' in flag ? [] : ['required']),
    ...(['', '""', 'false'].includes(value) ? [] : [`default ${value}`]),
    ...(env ? [`environment ${env}`] : []),
  ];
  return facts.length > 0 ? `${description} (${facts.join(', ')})` : description;
}

/** Columns, as far as the first one is not too wide: then the second one starts on the next line. */
const helpFormat: Partial<Help> = {
  helpWidth: 80,
  subcommandTerm: (command) => [command.name(), ...command.aliases()].join(', '),
  optionDescription: ({ description }) => description,
  optionTerm: (option) => option.flags.replace(' [value]', ''),
  commandUsage: (command) => `${pathOf(command)} ${command.usage()}`.trimEnd(),
  visibleArguments: () => [], // the usage has them
  padWidth: () => 24,
  formatItem(term, width, description, helper) {
    const indent = ' '.repeat(width + 4);
    const text = helper.boxWrap(description, (this.helpWidth ?? 80) - indent.length).replaceAll('\n', `\n${indent}`);
    return term.length > width ? `  ${term}\n${indent}${text}` : `  ${term.padEnd(width + 2)}${text}`;
  },
};

function pathOf(command: Commander): string {
  return command.parent ? `${pathOf(command.parent)} ${command.name()}` : command.name();
}

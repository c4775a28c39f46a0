import type { Command, Commands } from './command.ts';
import { InvalidInput } from './errors.ts';
import type { Flag, Suggest } from './flags.ts';

/** A word that the shell may offer, and its description. */
type Candidate = readonly [word: string, description?: string];

/**
 * Answers in the protocol of Cobra, which kubectl uses for its plugins too. The last word is incomplete. Prints one
 * candidate per line, its description after a tab, and at the end `:4`, or `:0` if the shell should offer files.
 */
export async function completions(
  commands: Commands,
  words: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<string> {
  const typed = words.at(-1) ?? '';
  const place = follow({ summary: '', commands }, words.slice(0, -1));
  const { candidates, files = false } = await offers(place, typed, env);
  const matching = candidates.filter(([word]) => word.startsWith(typed));
  return [...matching.map((candidate) => candidate.join('\t')), files ? ':0' : ':4'].join('\n');
}

/** Where the words lead. */
interface Place {
  readonly command: Command;
  /** The flag whose value comes next. */
  readonly flag?: Flag<unknown>;
  /** How many positional arguments are given. */
  readonly given: number;
  /** Values of flags, by name. */
  readonly values: ReadonlyMap<string, string>;
}

function follow(root: Command, words: readonly string[]): Place {
  let place: Place = { command: root, given: 0, values: new Map() };
  for (const word of words) {
    const { command, given, values, flag } = place;
    const [name = '', value] = word.split('=', 2);
    const named = word.startsWith('-') && !flag ? flagNamed(command, name) : undefined;
    const known = (set: Flag<unknown>, text: string) => new Map([...values, [set.name, text]]);
    if (flag) place = { command, given, values: known(flag, word) };
    else if (named && value !== undefined) place = { command, given, values: known(named, value) };
    else if (named && named.type.placeholder !== '') place = { command, given, values, flag: named };
    else if (!word.startsWith('-')) {
      const child = childNamed(command, word);
      place = { command: child ?? command, given: child ? 0 : given + 1, values };
    }
  }
  return place;
}

function childNamed({ commands = {} }: Command, word: string): Command | undefined {
  return Object.entries(commands).find(([name, { alias }]) => name === word || alias === word)?.[1];
}

function flagNamed({ flags = {} }: Command, word: string): Flag<unknown> | undefined {
  return Object.values(flags).find(
    ({ name, short, aliases = [] }) => word === `-${short}` || [name, ...aliases].some((each) => word === `--${each}`),
  );
}

interface Offers {
  readonly candidates: readonly Candidate[];
  readonly files?: boolean;
}

async function offers(place: Place, typed: string, env: NodeJS.ProcessEnv): Promise<Offers> {
  const { command, flag, given, values } = place;
  const look = async (suggest: Suggest | undefined) => (suggest ? await suggest(values, env).catch(() => []) : []);
  const valuesOf = async ({ type, suggest }: Flag<unknown>, prefix: string): Promise<Offers> => ({
    candidates: [...(type.choices ?? []), ...(await look(suggest))].map((value): Candidate => [`${prefix}${value}`]),
    files: type.placeholder === 'path',
  });

  if (flag) return valuesOf(flag, '');
  const [, prefix, name = ''] = /^((--[^=]+)=)/.exec(typed) ?? [];
  if (prefix) {
    const assigned = flagNamed(command, name);
    return assigned ? valuesOf(assigned, prefix) : { candidates: [] };
  }
  if (typed.startsWith('-')) return { candidates: flagsOf(command) };
  const children = Object.entries(command.commands ?? {}).map(([name, { summary }]): Candidate => [name, summary]);
  const word = command.words?.[given];
  const choices = word?.includes('|') ? word.split('|') : word ? await look(command.suggest) : [];
  return { candidates: [...children, ...choices.map((choice): Candidate => [choice])] };
}

function flagsOf({ flags = {} }: Command): readonly Candidate[] {
  const own = Object.values(flags).map(({ name, description }): Candidate => [`--${name}`, description]);
  return [...own, ['--help', 'Help on this command']];
}

/** To be sourced by the shell. */
export function completionScript(program: string, shell: string): string {
  const script = scripts[shell];
  if (!script)
    throw new InvalidInput(`invalid shell ${JSON.stringify(shell)}: use one of ${Object.keys(scripts).join(', ')}`);
  return script(program, `_${program.replaceAll('-', '_')}_complete`);
}

const scripts: Readonly<Record<string, (program: string, name: string) => string>> = {
  // Bash takes `--flag=value` for three words.
  bash: (program, name) => `# bash completion for ${program}
${name}() {
  local word words=() lines=()
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD}"; do [[ $word == '=' ]] || words+=("$word"); done
  [[ \${COMP_WORDS[COMP_CWORD]} == '=' ]] && words+=('')
  mapfile -t lines < <(${program} complete -- "\${words[@]}" 2>/dev/null)
  [[ \${lines[-1]} == ':0' ]] && compopt -o default
  COMPREPLY=("\${lines[@]::\${#lines[@]}-1}")
  COMPREPLY=("\${COMPREPLY[@]%%$'\\t'*}")
}
complete -F ${name} ${program}`,
  zsh: (program, name) => `#compdef ${program}
${name}() {
  local -a lines candidates
  local line
  lines=("\${(@f)$(${program} complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  for line in "\${(@)lines[1,-2]}"; do candidates+=("\${\${line//:/\\\\:}/$'\\t'/:}"); done
  if (( $#candidates )); then _describe -t candidates ${program} candidates
  elif [[ $lines[-1] == ':0' ]]; then _files; fi
}
if [[ $funcstack[1] == _${program} ]]; then ${name}; else compdef ${name} ${program}; fi`,
  fish: (program, name) => `# fish completion for ${program}
function ${name}
  set -l words (commandline -opc)
  set -l typed (commandline -ct)
  set -l lines (${program} complete -- $words[2..-1] "$typed" 2>/dev/null)
  test "$lines[-1]" = ':0'; and __fish_complete_path "$typed"
  for line in $lines[1..-2]; echo $line; end
end
complete -c ${program} -f -a '(${name})'`,
};

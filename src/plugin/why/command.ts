import { type Commands, command } from '../../base/command.ts';
import { InvalidInput } from '../../base/errors.ts';
import { flag, path } from '../../base/flags.ts';
import type { Explanation, Severity } from '../../explain/explanation.ts';
import { withSession } from '../connect.ts';
import { clusterFlags, namespaceFlag } from '../flags.ts';
import { objectsIn, textOf } from '../manifests.ts';
import { ProblemsFound } from '../problems-found.ts';
import { suggestWaiting } from '../suggestions.ts';
import { type Cell, forPrograms, paint, type Terminal, wrapped } from '../terminal.ts';
import { beforeApplying } from './before-applying.ts';
import { explained } from './explained.ts';
import { Reader } from './read.ts';

export function whyCommand(terminal: Terminal): Commands {
  return {
    why: command({
      summary: 'say in one sentence why a claim or a pod waits, with the evidence, and what to do',
      words: ['[pvc/NAME|pod/NAME]'],
      suggest: suggestWaiting,
      examples: [
        'kubectl moorage why data-db-0 -n prod          # a claim, a pod or a StatefulSet; exit code 4 if it is stuck',
        'kubectl moorage why pod/db-0 -o json           # with the code of the reason, for programs',
        'kubectl moorage why pv/pvc-6b0f4c1e            # also volumesnapshot/NAME, node/NAME, logicalvolume/NAME',
        'kubectl moorage why -f db.yaml                 # would it wait? Nothing is created',
      ],
      flags: {
        file: flag({
          name: 'filename',
          short: 'f',
          type: path,
          default: '',
          description: 'File with objects to check against the cluster before they are applied; - for standard input',
        }),
        ...namespaceFlag,
        ...clusterFlags,
      },
      async run(flags, { env, print, signal }, [word]) {
        if ((word === undefined) === (flags.file === ''))
          throw new InvalidInput('name a claim or a pod, or use -f FILE, not both');
        const written = flags.file ? objectsIn(await textOf(flags.file), flags.file) : [];
        const [found, unread] = await withSession(flags, env, async ({ client, namespace: current }) => {
          const reader = new Reader(client, signal);
          const namespace = flags.namespace || current;
          const all =
            word === undefined
              ? await beforeApplying(written, namespace, reader)
              : [await explained(word, namespace, reader)];
          return [all, [...reader.unread]] as const;
        });
        const [single] = found;
        const answer = word === undefined ? { items: found, unread } : { ...single, unread };
        print(forPrograms(answer, flags.output) ?? screen(found, unread, terminal));
        if (found.some(({ severity }) => severity === 'stuck')) throw new ProblemsFound('something is stuck');
      },
    }),
  };
}

const marks: Readonly<Record<Severity, Cell>> = {
  fine: { text: '✔', colour: 'green' },
  waits: { text: '…', colour: 'yellow' },
  stuck: { text: '✘', colour: 'red' },
};

/** A command stays in one line, so that it can be copied; its comment may follow. */
function commandLine(text: string, { columns = Number.POSITIVE_INFINITY }: Terminal): string {
  const line = `    ${text}`;
  return line.length <= columns ? line : line.replace(' # ', '\n      # ');
}

/** The sentence, then the evidence, then what to do. */
export function screen(found: readonly Explanation[], unread: readonly string[], terminal: Terminal): string {
  const blocks = found.map(({ sentence, severity, evidence, remedy }) =>
    [
      `${paint(marks[severity], terminal)} ${wrapped(sentence, '  ', terminal).trimStart()}`,
      ...(evidence.length > 0 ? ['', ...evidence.map((each) => wrapped(each, '    ', terminal))] : []),
      ...(remedy.length > 0 ? ['', '  To do:', ...remedy.map((each) => commandLine(each, terminal))] : []),
    ].join('\n'),
  );
  const limits = `You may not read ${unread.join(', ')}: what depends on them is not known.`;
  return [...blocks, ...(unread.length > 0 ? [wrapped(limits, '', terminal)] : [])].join('\n\n');
}

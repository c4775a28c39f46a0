import { systemClock } from '../base/clock.ts';
import { command, type Program } from '../base/command.ts';
import { InvalidInput, MoorageError } from '../base/errors.ts';
import { type Flags, type FlagType, flag, onOff, path, text } from '../base/flags.ts';
import { bundleCommand } from './bundle/command.ts';
import { checkScreen, checkWorkload, stuckIn, workloadsIn } from './check.ts';
import { withSession } from './connect.ts';
import { readControllerProblems } from './controller-problems.ts';
import { diagnose } from './doctor/diagnose.ts';
import { doctorScreen } from './doctor/screen.ts';
import { readFacts, readNodeNames, readNodeStates, readNodes } from './facts.ts';
import { clusterFlags, namespaceFlag } from './flags.ts';
import { textOf } from './manifests.ts';
import { moveCommands } from './moves/commands.ts';
import { nodeTable, poolRows } from './nodes.ts';
import { orphanScreen, orphansOf, unlisted } from './orphans.ts';
import { pageCommand } from './page/command.ts';
import { ProblemsFound } from './problems-found.ts';
import { recoveryCommands } from './recovery/commands.ts';
import { statusOf, statusScreen, withProblems } from './status.ts';
import { suggestClaims, suggestNodes } from './suggestions.ts';
import { forPrograms, type Terminal } from './terminal.ts';
import { readVolume, volumeDetails, volumeScreen } from './volume.ts';
import { type Health, healths, volumeRows, volumeTable } from './volumes.ts';
import { whyCommand } from './why/command.ts';

const healthType: FlagType<Health | undefined> = {
  placeholder: 'health',
  choices: healths,
  parse(word) {
    const health = healths.find((each) => each.toLowerCase() === word.toLowerCase());
    if (!health) throw new InvalidInput(`use one of ${healths.join(', ')}`);
    return health;
  },
};

const volumesFlags = {
  ...namespaceFlag,
  allNamespaces: flag({
    name: 'all-namespaces',
    short: 'A',
    type: onOff,
    default: false,
    description: 'Volumes of all namespaces, and those without a claim',
  }),
  node: flag({
    name: 'node',
    type: text,
    default: '',
    description: 'Only volumes of this node',
    suggest: suggestNodes,
  }),
  deviceClass: flag({ name: 'class', type: text, default: '', description: 'Only volumes of this device class' }),
  health: flag({
    name: 'health',
    type: healthType,
    default: undefined,
    description: `Only volumes with this health: ${healths.join(', ')}`,
  }),
  ...clusterFlags,
} as const satisfies Flags;

export function kubectlMoorage(terminal: Terminal): Program {
  return {
    name: 'kubectl-moorage',
    calledAs: 'kubectl moorage',
    summary: 'show, move and recover the local LVM volumes of a cluster',
    commands: {
      status: command({
        summary: 'show problems, and what to do about them, on one screen',
        examples: [
          'kubectl moorage status                         # exit code 4 if there are problems',
          'kubectl moorage status -o json                 # all of them, for programs',
        ],
        flags: clusterFlags,
        async run(flags, { env, print, signal }) {
          const status = await withSession(flags, env, async ({ client }) => {
            const [facts, reports, nodes, ofController] = await Promise.all([
              readFacts(client, { namespace: undefined, signal }),
              readNodes(client, signal),
              readNodeStates(client, signal),
              readControllerProblems(client, signal),
            ]);
            return withProblems(ofController, statusOf(facts, reports, nodes, systemClock.now()));
          });
          print(forPrograms(status, flags.output) ?? statusScreen(status, terminal));
          if (!status.healthy) throw new ProblemsFound(`${status.problems.length} found`);
        },
      }),
      nodes: command({
        summary: 'show the pools of each node, and how full they are',
        examples: [
          'kubectl moorage nodes                          # * marks the default class of a node',
          'kubectl moorage nodes -o wide                  # with volume groups, and why a pool is not healthy',
        ],
        flags: clusterFlags,
        async run(flags, { env, print, signal }) {
          const nodes = await withSession(flags, env, ({ client }) => readNodes(client, signal));
          if (!nodes) throw new NoNodeStorage('the cluster has no kind NodeStorage; upgrade Moorage there');
          const rows = poolRows(nodes);
          const empty = 'No node has reported its pools; see kubectl get pods -A for the pods of Moorage.';
          print(
            forPrograms({ items: rows }, flags.output) ??
              (rows.length > 0 ? nodeTable(rows, flags.output, systemClock.now(), terminal) : empty),
          );
        },
      }),
      volumes: command({
        summary: 'list volumes with their claim, pod, node, class, size, health and age',
        flags: volumesFlags,
        examples: [
          'kubectl moorage volumes                        # of the current namespace',
          'kubectl moorage volumes -A --health Failed     # what failed, anywhere',
          'kubectl moorage volumes -A --node worker-3 -o wide',
        ],
        async run(flags, { env, print, signal }) {
          const { output, allNamespaces, node, deviceClass, health } = flags;
          const [facts, namespace] = await withSession(flags, env, async ({ client, namespace: current }) => {
            const namespace = allNamespaces ? undefined : flags.namespace || current;
            return [await readFacts(client, { namespace, signal }), namespace] as const;
          });
          const filter = {
            namespace,
            node: node || undefined,
            deviceClass: deviceClass || undefined,
            health,
          };
          const rows = volumeRows(facts, filter);
          const what = node || deviceClass || health ? 'No such volumes' : 'No volumes';
          const empty = `${what}${namespace === undefined ? '' : ` in namespace ${namespace}; use -A for all namespaces`}.`;
          const style = { format: output, allNamespaces, nowMs: systemClock.now() };
          print(forPrograms({ items: rows }, output) ?? (rows.length > 0 ? volumeTable(rows, style, terminal) : empty));
        },
      }),
      volume: command({
        summary: 'show everything about one volume, with its events in time order',
        words: ['NAME'],
        suggest: suggestClaims,
        examples: [
          'kubectl moorage volume data-db-0 -n prod       # by its claim',
          'kubectl moorage volume prod/data-db-0',
          'kubectl moorage volume pv/pvc-6b0f4c1e-7f0d-4f6e-9d0b-2f1f1c0a9d11',
        ],
        flags: { ...namespaceFlag, ...clusterFlags },
        async run(flags, { env, print, signal }, [name = '']) {
          const details = await withSession(flags, env, async ({ client, namespace }) =>
            volumeDetails(await readVolume(client, name, flags.namespace || namespace, signal)),
          );
          print(forPrograms(details, flags.output) ?? volumeScreen(details, systemClock.now(), terminal));
        },
      }),
      check: command({
        summary: 'check whether pods would start again beside their data after a change, before it is applied',
        examples: [
          'kubectl moorage check -f db.yaml               # StatefulSets, Deployments and Pods; exit code 4 if one would not',
          'kustomize build prod | kubectl moorage check -f -',
        ],
        flags: {
          file: flag({ name: 'filename', short: 'f', type: path, description: 'File to check; - for standard input' }),
          ...namespaceFlag,
          ...clusterFlags,
        },
        async run(flags, { env, print, signal }) {
          const text = await textOf(flags.file);
          const checked = await withSession(flags, env, ({ client, namespace }) =>
            Promise.all(
              workloadsIn(text, flags.file, flags.namespace || namespace).map((each) =>
                checkWorkload(client, each, signal),
              ),
            ),
          );
          print(forPrograms({ items: checked }, flags.output) ?? checkScreen(checked, terminal));
          const stuck = checked.flatMap(({ pods }) => stuckIn(pods)).length;
          if (stuck > 0) throw new ProblemsFound(`${stuck} found`);
        },
      }),
      orphans: command({
        summary: 'list volumes and objects that nothing refers to any more, and the commands that resolve each',
        examples: [
          'kubectl moorage orphans                        # nothing is changed',
          'kubectl moorage orphans -o wide                # also why each is one',
        ],
        flags: clusterFlags,
        async run(flags, { env, print, signal }) {
          const { output } = flags;
          const nowMs = systemClock.now();
          const facts = await withSession(flags, env, async ({ client }) => {
            const [facts, nodes = [], nodeNames] = await Promise.all([
              readFacts(client, { namespace: undefined, signal }),
              readNodes(client, signal),
              readNodeNames(client, signal),
            ]);
            return { ...facts, nodes, nodeNames };
          });
          const orphans = orphansOf(facts, nowMs);
          const more = unlisted(facts);
          const screen = orphans.length > 0 ? orphanScreen(orphans, output, nowMs, terminal) : 'No orphans.';
          print(
            forPrograms({ items: orphans, unlisted: more }, output) ??
              `${screen}${more > 0 ? `\nand ${more} more on disks: nodes list 100 each` : ''}`,
          );
        },
      }),
      doctor: command({
        summary: 'check the installation, from nodes to certificates, and say how to fix what is wrong',
        examples: [
          'kubectl moorage doctor                         # exit code 4 if something is found, or may not be read',
          'kubectl moorage doctor -o json                 # areas and findings, for programs',
        ],
        flags: clusterFlags,
        async run(flags, { env, print, signal, version }) {
          const diagnosis = await withSession(flags, env, ({ client }) => diagnose(client, version, signal));
          print(forPrograms(diagnosis, flags.output) ?? doctorScreen(diagnosis, terminal));
          if (!diagnosis.healthy) throw new ProblemsFound('the installation has findings');
        },
      }),
      ...whyCommand(terminal),
      ui: pageCommand,
      bundle: bundleCommand,
      ...moveCommands(terminal),
      ...recoveryCommands,
    },
  };
}

class NoNodeStorage extends MoorageError {
  readonly code = 'FailedPrecondition';
}

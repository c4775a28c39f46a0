import { type StoredVolumeMove, type VolumeMove, volumeMoves } from '../../api/volume-move.ts';
import { systemClock } from '../../base/clock.ts';
import { type Commands, command, type Surroundings } from '../../base/command.ts';
import { MoorageError } from '../../base/errors.ts';
import { type Flags, flag, onOff, quantity, text } from '../../base/flags.ts';
import { toQuantity } from '../../base/quantity.ts';
import type { KubeClient } from '../../kube/client.ts';
import { withSession } from '../connect.ts';
import { clusterFlags, namespaceFlag } from '../flags.ts';
import { toYaml } from '../recovery/import.ts';
import { suggestClaims, suggestNodes } from '../suggestions.ts';
import { forPrograms, type Terminal } from '../terminal.ts';
import { evacuationScreen, readEvacuation } from './evacuation.ts';
import { showUntilOver } from './live-moves.ts';
import { type MoveRow, moveRows, moveTable } from './move-rows.ts';
import { abortMove, claimsNamed, moveNamed, moveOf, refuseImpossible, refuseUnlessAbortable } from './request.ts';

const { output: _, ...cluster } = clusterFlags;

const moveFlags = {
  to: flag({
    name: 'to',
    type: text,
    default: '',
    description: 'Node to move to; empty for one with room that the pods may run on',
    suggest: suggestNodes,
  }),
  stopBarePods: flag({
    name: 'stop-bare-pods',
    type: onOff,
    default: false,
    description: 'Also stop pods that nothing starts again',
  }),
  rateLimit: flag({
    name: 'rate-limit',
    type: quantity,
    default: 0n,
    description: 'Bytes per second to copy at most; 0 for no limit',
  }),
  dryRun: flag({ name: 'dry-run', type: onOff, default: false, description: 'Print the objects, change nothing' }),
  wait: flag({
    name: 'wait',
    type: onOff,
    default: true,
    description: 'Show the progress until the end (the move goes on either way)',
  }),
} as const satisfies Flags;

/** Commands that move volumes to other nodes, with their data. */
export function moveCommands(terminal: Terminal): Commands {
  /** Creates the moves, and shows them until they are over. */
  const start = async (
    client: KubeClient,
    moves: readonly VolumeMove[],
    { wait, dryRun }: { readonly wait: boolean; readonly dryRun: boolean },
    { print, screen, signal }: Surroundings,
  ): Promise<void> => {
    if (dryRun) return print(toYaml(moves));
    const created: StoredVolumeMove[] = [];
    for (const move of moves) created.push(await client.create(volumeMoves, move, { signal }));
    const names = new Set(created.map(({ metadata }) => metadata.uid));
    if (!wait) {
      for (const { metadata } of created) print(`VolumeMove ${metadata.namespace}/${metadata.name} created`);
      return;
    }
    const [first] = created;
    const isOneNamespace = created.every(({ metadata }) => metadata.namespace === first?.metadata.namespace);
    const namespace = isOneNamespace ? first?.metadata.namespace : undefined;
    const isShown = ({ metadata }: StoredVolumeMove) => names.has(metadata.uid);
    const rows = await showUntilOver(client, { namespace, isShown, terminal, screen }, signal);
    for (const row of rows) print(outcomeOf(row));
    const failed = rows.filter(({ phase }) => phase !== 'Done');
    if (failed.length > 0) throw new NotMoved(`${failed.length} of ${rows.length} not moved`);
  };

  return {
    migrate: command({
      summary: "move a claim's volume, or all volumes of a pod, to another node with their data",
      words: ['pod/NAME|pvc/NAME'],
      suggest: suggestClaims,
      examples: [
        'kubectl moorage migrate pvc/data-db-0 -n prod --to worker-3',
        'kubectl moorage migrate pod/db-0 -n prod            # to a node with room that the pod may run on',
        'kubectl moorage migrate data-db-0 --dry-run',
      ],
      flags: { ...moveFlags, ...namespaceFlag, ...cluster },
      async run(flags, surroundings, [word = '']) {
        await withSession(flags, surroundings.env, async ({ client, namespace: current }) => {
          const namespace = flags.namespace || current;
          const claims = await claimsNamed(client, word, namespace, surroundings.signal);
          const options = { namespace, targetNode: flags.to || undefined, ...limitsOf(flags) };
          for (const claim of claims) await refuseImpossible(client, claim, options, surroundings.signal);
          const moves = claims.map((claim) => moveOf(claim, options));
          await start(client, moves, flags, surroundings);
        });
      },
    }),
    evacuate: command({
      summary: 'move all volumes of a node to other nodes',
      words: ['NODE'],
      suggest: suggestNodes,
      examples: [
        'kubectl moorage evacuate worker-3 --plan     # what moves where, does it fit, how long, what stays',
        'kubectl cordon worker-3 && kubectl moorage evacuate worker-3',
      ],
      flags: {
        plan: flag({
          name: 'plan',
          type: onOff,
          default: false,
          description: 'Show what would happen, change nothing',
        }),
        ...moveFlags,
        ...clusterFlags,
      },
      async run(flags, surroundings, [nodeName = '']) {
        const { print, screen, env, signal } = surroundings;
        await withSession(flags, env, async ({ client }) => {
          const { stopBarePods, rateLimit } = limitsOf(flags);
          const targetNode = flags.to || undefined;
          const plan = await readEvacuation(client, { nodeName, targetNode, stopBarePods }, signal);
          const shown = evacuationScreen(nodeName, plan, flags.rateLimit || undefined, terminal);
          if (flags.dryRun && !flags.plan) screen.write(`${shown}\n`);
          else print(forPrograms(plan, flags.output) ?? shown);
          if (flags.plan) return;
          const moves = plan.moves.map(({ namespace, claim, to }) =>
            moveOf(claim, { namespace, targetNode: to, stopBarePods, rateLimit }),
          );
          if (moves.length > 0) await start(client, moves, flags, surroundings);
          if (plan.staying.length > 0) throw new NotMoved(`${plan.staying.length} not moved, see above`);
        });
      },
    }),
    moves: command({
      summary: 'show the moves of volumes, and how far they are',
      examples: ['kubectl moorage moves -A', 'kubectl moorage moves --watch     # until none is under way'],
      flags: {
        ...namespaceFlag,
        allNamespaces: flag({
          name: 'all-namespaces',
          short: 'A',
          type: onOff,
          default: false,
          description: 'Moves of all namespaces',
        }),
        watch: flag({
          name: 'watch',
          short: 'w',
          type: onOff,
          default: false,
          description: 'Show the progress until none is under way',
        }),
        ...clusterFlags,
      },
      async run(flags, { env, print, screen, signal }) {
        await withSession(flags, env, async ({ client, namespace: current }) => {
          const { allNamespaces, output } = flags;
          const namespace = allNamespaces ? undefined : flags.namespace || current;
          const rows = flags.watch
            ? await showUntilOver(client, { namespace, isShown: () => true, terminal, screen }, signal)
            : moveRows((await client.list(volumeMoves, { namespace, signal })).items);
          const style = { format: output, allNamespaces, nowMs: systemClock.now() };
          const where = namespace === undefined ? '' : ` in namespace ${namespace}; use -A for all namespaces`;
          const empty = `No moves${where}.`;
          print(forPrograms({ items: rows }, output) ?? (rows.length > 0 ? moveTable(rows, style, terminal) : empty));
        });
      },
    }),
    abort: command({
      summary: 'end a move before the target has all data; everything becomes as it was',
      words: ['MOVE|CLAIM'],
      suggest: suggestClaims,
      examples: ['kubectl moorage abort data-db-0 -n prod'],
      flags: { dryRun: moveFlags.dryRun, wait: moveFlags.wait, ...namespaceFlag, ...cluster },
      async run(flags, { env, print, screen, signal }, [name = '']) {
        await withSession(flags, env, async ({ client, namespace: current }) => {
          const namespace = flags.namespace || current;
          const move = await moveNamed(client, name, namespace, signal);
          refuseUnlessAbortable(move);
          if (flags.dryRun) return print(`would abort VolumeMove ${namespace}/${move.metadata.name}`);
          await abortMove(client, move, signal);
          if (!flags.wait) return print(`aborting VolumeMove ${namespace}/${move.metadata.name}`);
          const isShown = ({ metadata }: StoredVolumeMove) => metadata.uid === move.metadata.uid;
          const rows = await showUntilOver(client, { namespace, isShown, terminal, screen }, signal);
          for (const row of rows) print(outcomeOf(row));
        });
      },
    }),
  };
}

function limitsOf({ stopBarePods, rateLimit }: { readonly stopBarePods: boolean; readonly rateLimit: bigint }) {
  return { stopBarePods, rateLimit: rateLimit > 0n ? toQuantity(rateLimit) : undefined };
}

function outcomeOf({ namespace, claim, phase, message, pauseSeconds }: MoveRow): string {
  const pause = pauseSeconds === undefined ? '' : `; its pods could not use it for ${Math.round(pauseSeconds)} s`;
  return `${namespace}/${claim}: ${phase}, ${message}${pause}`;
}

class NotMoved extends MoorageError {
  readonly code = 'FailedPrecondition';
}

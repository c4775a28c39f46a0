import { type VolumeMove, volumeMoves } from '../../api/volume-move.ts';
import { systemClock } from '../../base/clock.ts';
import type { Screen } from '../../base/command.ts';
import type { KubeClient } from '../../kube/client.ts';
import { Informer } from '../../kube/informer.ts';
import type { Stored } from '../../kube/resource.ts';
import { noLog } from '../connect.ts';
import type { Terminal } from '../terminal.ts';
import { type MoveRow, moveRow, moveRows, moveTable } from './move-rows.ts';

export interface LiveOptions {
  /** Undefined for all. */
  readonly namespace: string | undefined;
  readonly isShown: (move: Stored<VolumeMove>) => boolean;
  readonly terminal: Terminal;
  readonly screen: Screen;
}

/** More often, nobody could read it. */
const redrawMs = 200;

/** Shows moves until none of them is under way; returns them as they are then. A file gets a line per phase and move, without the last one. */
export async function showUntilOver(
  client: KubeClient,
  { namespace, isShown, terminal, screen }: LiveOptions,
  signal: AbortSignal,
): Promise<readonly MoveRow[]> {
  const moves = new Informer({ client, resource: volumeMoves, namespace, clock: systemClock, log: noLog });
  const picture = new Picture(screen, terminal, namespace === undefined);
  const { promise: over, resolve } = Promise.withResolvers<void>();
  const shown = () => moveRows(moves.list().filter(isShown));
  const look = () => {
    if (moves.synced && shown().every(({ isOver }) => isOver)) resolve();
  };
  moves.onChange(({ object }) => {
    if (!isShown(object)) return;
    if (!screen.isTerminal) picture.line(moveRow(object));
    look();
  });
  const redraw = screen.isTerminal ? setInterval(() => picture.draw(shown()), redrawMs) : undefined;
  const stopped = () => resolve();
  signal.addEventListener('abort', stopped, { once: true });
  moves.start();
  try {
    await moves.whenSynced(signal);
    look();
    await over;
    signal.throwIfAborted();
    return shown();
  } finally {
    clearInterval(redraw);
    picture.clear();
    signal.removeEventListener('abort', stopped);
    await moves.stop();
  }
}

/** A table that is drawn over the one before. */
class Picture {
  readonly #screen: Screen;
  readonly #terminal: Terminal;
  readonly #allNamespaces: boolean;
  #height = 0;
  readonly #phases = new Map<string, string>();

  constructor(screen: Screen, terminal: Terminal, allNamespaces: boolean) {
    this.#screen = screen;
    this.#terminal = terminal;
    this.#allNamespaces = allNamespaces;
  }

  draw(rows: readonly MoveRow[]): void {
    const style = { format: 'table', allNamespaces: this.#allNamespaces, nowMs: systemClock.now() } as const;
    const text = rows.length > 0 ? moveTable(rows, style, this.#terminal) : '';
    this.clear();
    this.#screen.write(`${text}\n`);
    this.#height = text.split('\n').length;
  }

  clear(): void {
    if (this.#height > 0) this.#screen.write(`\u001B[${this.#height}A\u001B[J`);
    this.#height = 0;
  }

  line({ namespace, name, phase, claim, message, isOver }: MoveRow): void {
    const key = `${namespace}/${name}`;
    if (isOver || this.#phases.get(key) === phase) return;
    this.#phases.set(key, phase);
    this.#screen.write(`${namespace}/${claim}: ${phase}${message ? `, ${message}` : ''}\n`);
  }
}

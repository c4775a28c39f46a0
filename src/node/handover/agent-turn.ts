import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pause } from '../../base/abortable.ts';
import type { Clock } from '../../base/clock.ts';
import { InvalidInput } from '../../base/errors.ts';
import { exists } from '../../base/exists.ts';
import { nobodyListens, untilClosed } from '../../rpc/socket-answers.ts';
import { Turn } from './turn.ts';

/** An older agent closes its socket when it is told to end; the kubelet gives it as long from then. */
const olderHasEndedMs = 30_000;
/** What the kernel takes for the path of a socket, less what is added here. */
const maxPathBytes = 107 - '.agents/new-01234567'.length;

/**
 * The turn of an agent among all of its node, who meet at the socket on which each of them would serve CSI. Older agents,
 * which take no turns, are waited for as well; that there is one is written down, for whoever comes after us.
 */
export class AgentTurn {
  /** Whether nobody was before us from the beginning. */
  readonly isFirst: boolean;
  readonly #turn: Turn;
  readonly #csiSocket: string;
  readonly #olderFile: string;
  readonly #clock: Clock;

  private constructor(its: { isFirst: boolean; turn: Turn; csiSocket: string; olderFile: string; clock: Clock }) {
    this.isFirst = its.isFirst;
    this.#turn = its.turn;
    this.#csiSocket = its.csiSocket;
    this.#olderFile = its.olderFile;
    this.#clock = its.clock;
  }

  static async take(csiSocket: string, clock: Clock, signal: AbortSignal): Promise<AgentTurn> {
    if (Buffer.byteLength(csiSocket) > maxPathBytes) {
      throw new InvalidInput(`--csi-socket ${csiSocket} is too long; choose a path of at most ${maxPathBytes} bytes`);
    }
    const directory = `${csiSocket}.agents`;
    const olderFile = join(directory, 'older');
    const turn = await Turn.take(directory);
    const isNext = await turn.hasCome(signal);
    if (isNext && !(await nobodyListens(csiSocket))) await writeFile(olderFile, '');
    const isFirst = isNext && !(await exists(olderFile));
    return new AgentTurn({ isFirst, turn, csiSocket, olderFile, clock });
  }

  /** Waits until all that were before us have ended. */
  async comes(signal: AbortSignal): Promise<void> {
    await this.#turn.comes(signal);
    await untilClosed(this.#csiSocket, signal); // the sockets of one that was killed close one after the other
    while (await exists(this.#olderFile)) {
      await pause(this.#clock, olderHasEndedMs, signal);
      if (await nobodyListens(this.#csiSocket)) await rm(this.#olderFile);
      else await untilClosed(this.#csiSocket, signal); // it was killed, and has been started again
    }
  }

  /** To be called when nothing is done any more. */
  end(): void {
    this.#turn.end();
  }
}

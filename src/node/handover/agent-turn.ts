import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pause } from '../../base/abortable.ts';
import type { Clock } from '../../base/clock.ts';
import { InvalidInput } from '../../base/errors.ts';
import { exists } from '../../base/exists.ts';
import { nobodyListens, untilClosed } from '../../rpc/socket-answers.ts';
import { Turn } from './turn.ts';

/** An older agent closes its socket when it starts to stop; from then on the kubelet gives it this long. */
const olderHasEndedMs = 30_000;
/** The kernel's limit for the path of a socket, minus what is appended here. */
const maxPathBytes = 107 - '.agents/new-01234567'.length;

/**
 * The turn of an agent among all agents of its node. They meet next to the CSI socket. Older agents, which take no turns,
 * are waited for as well; a file records that there is one, for the next agents in line.
 */
export class AgentTurn {
  /** Whether no other agent was before this one at the start. */
  readonly isFirst: boolean;
  readonly #turn: Turn;
  readonly #csiSocket: string;
  readonly #olderFile: string;
  readonly #clock: Clock;

  private constructor(options: { isFirst: boolean; turn: Turn; csiSocket: string; olderFile: string; clock: Clock }) {
    this.isFirst = options.isFirst;
    this.#turn = options.turn;
    this.#csiSocket = options.csiSocket;
    this.#olderFile = options.olderFile;
    this.#clock = options.clock;
  }

  static async take(csiSocket: string, clock: Clock, signal: AbortSignal): Promise<AgentTurn> {
    if (Buffer.byteLength(csiSocket) > maxPathBytes) {
      throw new InvalidInput(`--csi-socket ${csiSocket} is too long; use a path of at most ${maxPathBytes} bytes`);
    }
    const directory = `${csiSocket}.agents`;
    const olderFile = join(directory, 'older');
    const turn = await Turn.take(directory);
    const isNext = await turn.hasCome(signal);
    if (isNext && !(await nobodyListens(csiSocket))) await writeFile(olderFile, '');
    const isFirst = isNext && !(await exists(olderFile));
    return new AgentTurn({ isFirst, turn, csiSocket, olderFile, clock });
  }

  /** Waits until all earlier agents have stopped. */
  async comes(signal: AbortSignal): Promise<void> {
    await this.#turn.comes(signal);
    await untilClosed(this.#csiSocket, signal); // the sockets of a killed agent close one after the other
    while (await exists(this.#olderFile)) {
      await pause(this.#clock, olderHasEndedMs, signal);
      if (await nobodyListens(this.#csiSocket)) await rm(this.#olderFile);
      else await untilClosed(this.#csiSocket, signal); // the older agent was killed and restarted
    }
  }

  /** Call this when all work has ended. */
  end(): void {
    this.#turn.end();
  }
}

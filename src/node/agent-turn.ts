import { pause } from '../base/abortable.ts';
import type { Clock } from '../base/clock.ts';
import { nobodyListens, untilClosed } from '../rpc/socket-answers.ts';
import { Turn } from './turn.ts';

/** An older agent closes its socket when it is told to end; the kubelet gives it as long from then. */
const olderHasEndedMs = 30_000;

/**
 * The turn of an agent among all of its node, who meet at the socket on which each of them would serve CSI. Older agents,
 * which take no turns, are waited for as well.
 */
export class AgentTurn {
  /** Whether nobody was before us from the beginning. */
  readonly isFirst: boolean;
  readonly #turn: Turn;
  readonly #isBehindOlder: boolean;
  readonly #csiSocket: string;
  readonly #clock: Clock;

  private constructor(its: { turn: Turn; isNext: boolean; isServed: boolean; csiSocket: string; clock: Clock }) {
    this.isFirst = its.isNext && !its.isServed;
    this.#turn = its.turn;
    this.#isBehindOlder = its.isNext && its.isServed;
    this.#csiSocket = its.csiSocket;
    this.#clock = its.clock;
  }

  static async take(csiSocket: string, clock: Clock): Promise<AgentTurn> {
    const turn = await Turn.take(`${csiSocket}.agents`);
    const [isNext, isServed] = [await turn.hasCome(), !(await nobodyListens(csiSocket))];
    return new AgentTurn({ turn, isNext, isServed, csiSocket, clock });
  }

  /** Waits until all that were before us have ended. */
  async comes(signal: AbortSignal): Promise<void> {
    await this.#turn.comes(signal);
    for (;;) {
      await untilClosed(this.#csiSocket, signal); // the sockets of one that was killed close one after the other
      if (!this.#isBehindOlder) return;
      await pause(this.#clock, olderHasEndedMs, signal);
      if (await nobodyListens(this.#csiSocket)) return; // else it was killed, and has been started again
    }
  }

  /** To be called when nothing is done any more. */
  end(): void {
    this.#turn.end();
  }
}

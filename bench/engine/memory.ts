import type { Lvmd } from './lvmd.ts';
import { type Place, placeName } from './side.ts';

const calls = 10_000;
const callsBetweenLooks = 1000;
/** Create, list and free space several times, and remove. */
const callsARound = 10;

export interface Memory {
  readonly idleMib: number;
  /** After each thousand calls: once warm, it must not grow. */
  readonly afterThousandsMib: readonly number[];
}

/** The memory of a freshly started daemon, and after thousands of calls. */
export async function measureMemory(lvmd: Lvmd, place: Place, say: (detail: string) => void): Promise<Memory> {
  const idleMib = await lvmd.residentMib();
  const afterThousandsMib: number[] = [];
  for (let done = 0; done < calls; ) {
    say(`memory: ${done} of ${calls} calls, ${placeName(place)}`);
    for (const end = done + callsBetweenLooks; done < end; done += callsARound) {
      await lvmd.create(place, `memory-${done}`);
      for (let i = 0; i < (callsARound - 2) / 2; i++) await Promise.all([lvmd.list(place), lvmd.freeBytes(place)]);
      await lvmd.remove(place, `memory-${done}`);
    }
    afterThousandsMib.push(await lvmd.residentMib());
  }
  return { idleMib, afterThousandsMib };
}

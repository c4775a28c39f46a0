import type { Lvmd } from './lvmd.ts';
import { type Place, placeName } from './side.ts';

const calls = 5000;
/** A volume made, listed and asked about, and removed. */
const callsARound = 10;

export interface Memory {
  readonly idleMib: number;
  readonly halfwayMib: number;
  readonly afterMib: number;
  readonly calls: number;
}

/** How much memory a daemon holds that has just started, and what thousands of calls do to it. */
export async function measureMemory(lvmd: Lvmd, place: Place, say: (detail: string) => void): Promise<Memory> {
  const idleMib = await lvmd.residentMib();
  let halfwayMib = idleMib;
  for (let done = 0; done < calls; done += callsARound) {
    if (done === calls / 2) halfwayMib = await lvmd.residentMib();
    if (done % 500 === 0) say(`memory: ${done} of ${calls} calls, ${placeName(place)}`);
    await lvmd.create(place, `memory-${done}`);
    for (let i = 0; i < (callsARound - 2) / 2; i++) await Promise.all([lvmd.list(place), lvmd.freeBytes(place)]);
    await lvmd.remove(place, `memory-${done}`);
  }
  return { idleMib, halfwayMib, afterMib: await lvmd.residentMib(), calls };
}

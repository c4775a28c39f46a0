import type { Clock } from '../../base/clock.ts';
import type { Disk } from './report.ts';

/** Of the metadata on these disks, without asking LVM; undefined if they do not tell. */
export type SequenceNumberOf = (disks: readonly Disk[]) => Promise<number | undefined>;

/** A device that does not answer within this time tells nothing; LVM has deadlines of its own. */
const readTimeoutMs = 2_000;

/** Reads it from the disks; one that hangs delays nobody for long. */
export class SequenceNumber {
  readonly #sequenceNumberOf: SequenceNumberOf;
  readonly #clock: Clock;
  #reading = false;

  constructor(sequenceNumberOf: SequenceNumberOf, clock: Clock) {
    this.#sequenceNumberOf = sequenceNumberOf;
    this.#clock = clock;
  }

  async read(disks: readonly Disk[]): Promise<number | undefined> {
    if (this.#reading) return undefined; // a read that hangs must not be followed by more that hang
    this.#reading = true;
    const reading = this.#sequenceNumberOf(disks).finally(() => {
      this.#reading = false;
    });
    const late = Promise.withResolvers<undefined>();
    const timer = this.#clock.setTimer(() => late.resolve(undefined), readTimeoutMs);
    try {
      return await Promise.race([reading, late.promise]);
    } finally {
      timer.cancel();
    }
  }
}

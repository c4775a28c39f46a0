import type { Clock } from '../../base/clock.ts';
import type { Disk, GroupReport } from './report.ts';

/** The sequence number in the metadata on these disks, without asking LVM; undefined if they do not tell. */
export type SequenceNumberOf = (disks: readonly Disk[]) => Promise<number | undefined>;

/** What the disks told when they were read. */
type OnDisks = number | 'nothing';

/** Disks that do not answer within this time tell nothing; LVM has deadlines of its own. */
const readTimeoutMs = 2_000;

/**
 * Whether memory of a volume group is what LVM has. LVM says so when it is asked; later the disks do, by the sequence number
 * that LVM writes with each change. Disks that tell nothing confirm nothing.
 */
export class Confirmation {
  readonly #sequenceNumberOf: SequenceNumberOf;
  readonly #clock: Clock;
  #isReading = false;
  #disks: readonly Disk[] = [];
  /** As our own changes make it; if the disks say something else, somebody else was there. */
  #sequenceNumber = 0;
  /** What the disks said when LVM was asked for that and said something else: that is nothing to ask again for. */
  #askedAbout: OnDisks | undefined;
  #isPartial = false;
  #inDoubt = true;
  #isConfirmed = false;
  #touched = true;

  constructor(sequenceNumberOf: SequenceNumberOf, clock: Clock) {
    this.#sequenceNumberOf = sequenceNumberOf;
    this.#clock = clock;
  }

  /** Memory is not what LVM has, or a command has failed: it is read as soon as that is seen. */
  get inDoubt(): boolean {
    return this.#inDoubt;
  }

  /** Else LVM is asked before a change. */
  get isSure(): boolean {
    return !this.#inDoubt && this.#isConfirmed;
  }

  /** LVM has not found all disks. One that comes back changes nothing on the others, so they can confirm nothing. */
  get isPartial(): boolean {
    return this.#isPartial;
  }

  /** Others may have worked on the group since it was last compared. */
  get touched(): boolean {
    return this.#touched;
  }

  touch(): void {
    this.#touched = true;
  }

  doubt(): void {
    this.#inDoubt = true;
  }

  /** The disks of the group, where we find them. */
  use(disks: readonly Disk[]): void {
    this.#disks = disks;
  }

  /** LVM was asked, and memory is what it said. */
  confirm({ sequenceNumber, isPartial }: GroupReport): void {
    this.#sequenceNumber = sequenceNumber;
    if (this.#askedAbout === sequenceNumber) this.#askedAbout = undefined;
    this.#isPartial = isPartial;
    this.#isConfirmed = !isPartial;
    this.#inDoubt = false;
  }

  /** A command of ours has changed the group, and memory with it. */
  follow(steps: number): void {
    this.#sequenceNumber += steps;
  }

  /** Asks the disks. */
  async compare(): Promise<void> {
    this.#touched = false; // and what is done while the disks are read counts again
    const now = (await this.#read()) ?? 'nothing';
    const agrees = now === this.#sequenceNumber;
    if (!agrees && now !== this.#askedAbout) this.#inDoubt = true;
    this.#askedAbout = agrees ? undefined : now;
    this.#isConfirmed = agrees && !this.#isPartial;
  }

  /** Disks that hang delay nobody for long. */
  async #read(): Promise<number | undefined> {
    if (this.#isReading) return undefined; // a read that hangs must not be followed by more that hang
    this.#isReading = true;
    const reading = this.#sequenceNumberOf(this.#disks).finally(() => {
      this.#isReading = false;
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

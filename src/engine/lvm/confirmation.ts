import type { Clock } from '../../base/clock.ts';
import type { Disk, GroupReport } from './report.ts';

/** Reads the sequence number from the metadata on these disks, without LVM; undefined if they do not show it. */
export type SequenceNumberOf = (disks: readonly Disk[]) => Promise<number | undefined>;

/** The sequence number on the disks when they were last read. */
type OnDisks = number | 'nothing';

/** Disks that do not answer in time confirm nothing; LVM has its own timeouts. */
const readTimeoutMs = 2_000;

/**
 * Whether memory of a volume group matches LVM. A report by LVM confirms it, and later the sequence number that LVM
 * writes to the disks with each change. Disks that cannot be read confirm nothing.
 */
export class Confirmation {
  readonly #sequenceNumberOf: SequenceNumberOf;
  readonly #clock: Clock;
  #isReading = false;
  #disks: readonly Disk[] = [];
  /** Expected from our own changes; another number on the disks means a change by somebody else. */
  #sequenceNumber = 0;
  /** A number on the disks that LVM, when queried, did not report: no reason to query again. */
  #askedAbout: OnDisks | undefined;
  #isPartial = false;
  #inDoubt = true;
  #isConfirmed = false;
  #touched = true;

  constructor(sequenceNumberOf: SequenceNumberOf, clock: Clock) {
    this.#sequenceNumberOf = sequenceNumberOf;
    this.#clock = clock;
  }

  /** Memory differs from LVM, or a command failed: the group is read again as soon as that is seen. */
  get inDoubt(): boolean {
    return this.#inDoubt;
  }

  /** If false, LVM is queried before a change. */
  get isSure(): boolean {
    return !this.#inDoubt && this.#isConfirmed;
  }

  /** A disk is missing. Its return changes nothing on the other disks, so they can confirm nothing. */
  get isPartial(): boolean {
    return this.#isPartial;
  }

  /** Others may have changed the group since the last comparison. */
  get touched(): boolean {
    return this.#touched;
  }

  touch(): void {
    this.#touched = true;
  }

  doubt(): void {
    this.#inDoubt = true;
  }

  /** Sets the disks of the group, with paths that this process can open. */
  use(disks: readonly Disk[]): void {
    this.#disks = disks;
  }

  /** Memory now holds this report. */
  confirm({ sequenceNumber, isPartial }: GroupReport): void {
    this.#sequenceNumber = sequenceNumber;
    if (this.#askedAbout === sequenceNumber) this.#askedAbout = undefined;
    this.#isPartial = isPartial;
    this.#isConfirmed = !isPartial;
    this.#inDoubt = false;
  }

  /** One of our commands changed the group, and memory with it. */
  follow(steps: number): void {
    this.#sequenceNumber += steps;
  }

  /** Compares memory with the disks. */
  async compare(): Promise<void> {
    this.#touched = false; // a change during the read counts again
    const now = (await this.#read()) ?? 'nothing';
    const agrees = now === this.#sequenceNumber;
    if (!agrees && now !== this.#askedAbout) this.#inDoubt = true;
    this.#askedAbout = agrees ? undefined : now;
    this.#isConfirmed = agrees && !this.#isPartial;
  }

  /** Gives up on disks that hang. */
  async #read(): Promise<number | undefined> {
    if (this.#isReading) return undefined; // a hung read must not be followed by more
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

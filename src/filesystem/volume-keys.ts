import { secretEntries } from '../api/names.ts';

/** The keys of one encrypted volume. Whoever created them disposes of them, which overwrites them. */
export class VolumeKeys implements Disposable {
  /** Opens the volume; a new volume is encrypted with it. */
  readonly current: Uint8Array;
  /** Opened the volume earlier, and is replaced by the current one. */
  readonly previous: Uint8Array | undefined;

  constructor(current: Uint8Array, previous?: Uint8Array) {
    this.current = current;
    this.previous = previous;
  }

  /**
   * From the entries of a Secret: text in a CSI call, base64 in the Secret itself. The bytes are used as they are, newlines
   * too. Undefined if there is no passphrase.
   */
  static in(entries: Readonly<Record<string, string>>, encoding: 'utf8' | 'base64'): VolumeKeys | undefined {
    const { [secretEntries.passphrase]: current, [secretEntries.previous]: previous } = entries;
    if (!current) return undefined;
    return new VolumeKeys(Buffer.from(current, encoding), previous ? Buffer.from(previous, encoding) : undefined);
  }

  [Symbol.dispose](): void {
    this.current.fill(0);
    this.previous?.fill(0);
  }
}

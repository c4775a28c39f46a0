import { InvalidInput } from '../base/errors.ts';
import type { Filesystem } from './filesystem.ts';

interface Allowed {
  /** Options that take a value. */
  readonly valued: readonly string[];
  readonly plain: readonly string[];
  /** Words in a value that make mkfs use another device, or succeed without creating a filesystem. */
  readonly refused: RegExp;
}

/**
 * The mkfs options that users may set: those that lay out the filesystem. Unlisted options are refused, such as those
 * that force mkfs, name another device or a file of the node, or set the UUID by which Moorage recognises its work.
 */
const allowed: Readonly<Record<Filesystem, Allowed>> = {
  ext4: {
    valued: ['-b', '-C', '-E', '-g', '-G', '-i', '-I', '-J', '-L', '-m', '-N', '-O', '-T'],
    plain: [],
    refused: /(?:^|,)(?:(?:device|offset)=|journal_dev(?:,|$))/,
  },
  xfs: {
    valued: ['-b', '-d', '-i', '-l', '-m', '-n', '-s', '-L'],
    plain: [],
    refused: /(?:^|,)(?:name|file|logdev|uuid)(?:=|,|$)/,
  },
  btrfs: {
    valued: [
      ...['-d', '--data', '-m', '--metadata', '-n', '--nodesize', '-s', '--sectorsize', '-L', '--label'],
      ...['-O', '--features', '-R', '--runtime-features', '--csum', '--checksum'],
    ],
    plain: ['-M', '--mixed'],
    refused: /(?:^|,)list-all(?:,|$)/,
  },
};

/** Splits the text into arguments for mkfs; `field` names its source. */
export function parseMkfsOptions(filesystem: Filesystem, text: string, field: string): readonly string[] {
  const { valued, plain, refused } = allowed[filesystem];
  const words = text.split(/\s+/).filter((word) => word !== '');
  const refuse = (word: string): never => {
    throw new InvalidInput(
      `${field} contains ${JSON.stringify(word)}, which is not allowed for ${filesystem}; ` +
        `use ${valued.join(', ')}, each with a value${plain.length > 0 ? `, or ${plain.join(', ')}` : ''}`,
    );
  };
  for (let i = 0; i < words.length; i++) {
    const option = words[i] ?? '';
    if (plain.includes(option)) continue;
    if (!valued.includes(option)) refuse(option);
    const value = words[++i];
    if (value === undefined || !/^[A-Za-z0-9^][\w^.,=:+%-]*$/.test(value) || refused.test(value)) {
      refuse(value === undefined ? option : `${option} ${value}`);
    }
  }
  return words;
}

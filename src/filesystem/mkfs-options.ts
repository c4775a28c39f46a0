import { InvalidInput } from '../base/errors.ts';
import type { Filesystem } from './filesystem.ts';

interface Allowed {
  /** Options that take a value. */
  readonly valued: readonly string[];
  readonly plain: readonly string[];
  /** Words within a value that lead mkfs away from the volume's own device, or have it succeed without a filesystem. */
  readonly refused: RegExp;
}

/**
 * What may be said to mkfs: how to lay a filesystem out. What forces it, names another device or a file of the node, or
 * sets the UUID by which Moorage knows its work, may not; nor anything that is not known here.
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

/** The options in a text, as words for mkfs; `field` is where the text was found. */
export function parseMkfsOptions(filesystem: Filesystem, text: string, field: string): readonly string[] {
  const { valued, plain, refused } = allowed[filesystem];
  const words = text.split(/\s+/).filter((word) => word !== '');
  const refuse = (word: string): never => {
    throw new InvalidInput(
      `${field} holds ${JSON.stringify(word)}, which is not offered for ${filesystem}; ` +
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

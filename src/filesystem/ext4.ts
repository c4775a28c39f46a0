import type { Filesystem } from './filesystem.ts';

export const ext4: Filesystem = {
  name: 'ext4',
  smallestBytes: 32n * 1024n ** 2n,

  mkfsOptions: {
    valued: ['-b', '-C', '-E', '-g', '-G', '-i', '-I', '-J', '-L', '-m', '-N', '-O', '-T'],
    plain: [],
    refused: /(?:^|,)(?:(?:device|offset)=|journal_dev(?:,|$))/,
  },

  mkfs({ devicePath, uuid, options }) {
    const [extended, others] = withoutExtended(options);
    // The kernel zeroes the tables once it is mounted.
    const features = ['nodiscard', 'lazy_itable_init=1', 'lazy_journal_init=1', ...extended].join(',');
    // With 4 KiB blocks mkfs writes the head of the device last, with the superblock: until then it reads as empty.
    // The smaller default for small volumes would also be slow once the volume has grown.
    return ['mkfs.ext4', '-q', '-b', '4096', '-m', '0', '-E', features, '-U', uuid, ...others, devicePath];
  },

  superblock: {
    offsetBytes: 1024,
    parse(block) {
      const logBlockSize = block.getUint32(0x18, little);
      if (block.getUint16(0x38, little) !== 0xef53 || logBlockSize > 6) return undefined;
      const has64Bits = (block.getUint32(0x60, little) & 0x80) !== 0;
      const high = has64Bits ? block.getUint32(0x150, little) : 0;
      const blocks = (BigInt(high) << 32n) | BigInt(block.getUint32(0x04, little));
      return { sizeBytes: blocks << BigInt(10 + logBlockSize), isUnfinished: false }; // mkfs writes it last
    },
  },

  growth: (devicePath) => ['resize2fs', devicePath],
  mountOptions: [],
  withoutRecovery: 'noload',
  check: 'e2fsck -n',
};

const little = true;

/** mkfs.ext4 uses only the last `-E`, so all of them are merged into one. */
function withoutExtended(options: readonly string[]): [extended: string[], others: string[]] {
  const isExtended = (index: number) => options[index] === '-E';
  return [
    options.filter((_, index) => isExtended(index - 1)),
    options.filter((_, index) => !isExtended(index) && !isExtended(index - 1)),
  ];
}

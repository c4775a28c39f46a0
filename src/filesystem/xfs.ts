import type { Filesystem } from './filesystem.ts';

export const xfs: Filesystem = {
  name: 'xfs',
  smallestBytes: 300n * 1024n ** 2n,

  mkfsOptions: {
    valued: ['-b', '-d', '-i', '-l', '-m', '-n', '-s', '-L'],
    plain: [],
    refused: /(?:^|,)(?:name|file|logdev|uuid)(?:=|,|$)/,
  },

  /** Unless forced, it refuses to overwrite what it recognises, which includes our own unfinished mkfs. */
  mkfs({ devicePath, uuid, options, again }) {
    return ['mkfs.xfs', ...(again ? ['-f'] : []), '-q', '-K', '-m', `uuid=${uuid}`, ...options, devicePath];
  },

  superblock: {
    offsetBytes: 0,
    parse(block) {
      if (block.getUint32(0) !== 0x58465342) return undefined; // XFSB
      const sizeBytes = block.getBigUint64(8) * BigInt(block.getUint32(4));
      return { sizeBytes, isUnfinished: block.getUint8(126) !== 0 }; // mkfs writes it first, marked as in progress
    },
  },

  growth: (_devicePath, mountedAt) => ['xfs_growfs', '-d', mountedAt],
  mountOptions: ['nouuid'], // a copy has the UUID of its source, and xfs refuses to mount both without it
  withoutRecovery: 'norecovery',
  check: 'xfs_repair -n',
};

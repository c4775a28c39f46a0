import type { Filesystem } from './filesystem.ts';

export const btrfs: Filesystem = {
  name: 'btrfs',
  smallestBytes: 200n * 1024n ** 2n,

  mkfsOptions: {
    valued: [
      ...['-d', '--data', '-m', '--metadata', '-n', '--nodesize', '-s', '--sectorsize', '-L', '--label'],
      ...['-O', '--features', '-R', '--runtime-features', '--csum', '--checksum'],
    ],
    plain: ['-M', '--mixed'],
    refused: /(?:^|,)list-all(?:,|$)/,
  },

  /** Without a force option, it refuses to overwrite what it recognises. */
  mkfs({ devicePath, uuid, options }) {
    return ['mkfs.btrfs', '-q', '-K', '-U', uuid, ...options, devicePath];
  },

  superblock: {
    offsetBytes: 65_536,
    parse(block) {
      if (block.getBigUint64(0x40, little) !== 0x4d5f53665248425fn) return undefined; // _BHRfS_M
      const sizeBytes = block.getBigUint64(0xd1, little); // of the device that this superblock is on
      return { sizeBytes, isUnfinished: false }; // mkfs writes it with another magic until it is done
    },
  },

  growth: (_devicePath, mountedAt) => ['btrfs', 'filesystem', 'resize', 'max', mountedAt],
  mountOptions: [],
  withoutRecovery: 'rescue=nologreplay',
  check: 'btrfs check --readonly',
};

const little = true;

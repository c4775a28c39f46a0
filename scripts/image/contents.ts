/**
 * What is in the image. Only these programs are taken from Debian's packages; the libraries that they need are added
 * automatically.
 */
export const programs: Readonly<Record<string, readonly string[]>> = {
  // For Moorage's start script, and for the shells that Moorage starts.
  dash: ['sh'],
  coreutils: ['basename', 'cp', 'dirname', 'head', 'readlink', 'tail'],
  // To prove that a device holds no data.
  diffutils: ['cmp'],

  // Used unless the node's own LVM is (lvm-command-prefix). LVM calls thin_check when it activates a thin pool.
  // thin_delta and thin_dump show what of a thin volume has to be copied when it moves.
  lvm2: ['lvm'],
  dmsetup: ['dmsetup'],
  'thin-provisioning-tools': ['thin_check', 'thin_delta', 'thin_dump', 'thin_repair'],

  // Filesystems: to create, to grow and, by hand, to repair. filefrag shows what of a file has to be copied when it moves.
  e2fsprogs: ['e2fsck', 'filefrag', 'mkfs.ext4', 'resize2fs'],
  xfsprogs: ['mkfs.xfs', 'xfs_growfs', 'xfs_repair'],
  'btrfs-progs': ['btrfs', 'mkfs.btrfs'],

  // Encrypted volumes.
  'cryptsetup-bin': ['cryptsetup'],

  // Mounts, loop devices, probing, erasing, flushing, freezing, locking, and nsenter for the node's own LVM.
  mount: ['losetup', 'mount', 'umount'],
  'util-linux': ['blkdiscard', 'blkid', 'blockdev', 'fallocate', 'flock', 'fsfreeze', 'nsenter', 'wipefs'],
};

/** Packages with the libraries of Node, which is not a Debian package; base-files tells scanners the release. */
export const otherPackages = ['base-files', 'libatomic1', 'libc6', 'libgcc-s1', 'libstdc++6'];

export const otherFiles = ['etc/lvm/lvm.conf', 'etc/mke2fs.conf', 'etc/os-release'];

/** Mount points, or directories that programs expect. */
export const directories = ['dev', 'etc/topolvm', 'proc', 'root', 'run', 'sys', 'tmp', 'var/lib'];

/** Links: Debian's merged /usr, and Moorage's other names. */
export const links: Readonly<Record<string, string>> = {
  bin: 'usr/bin',
  sbin: 'usr/sbin',
  lib: 'usr/lib',
  lib64: 'usr/lib64',
  'usr/bin/moorage': '../lib/moorage/moorage',
  'usr/bin/topolvm-node': 'moorage',
  'usr/bin/topolvm-controller': 'moorage',
  'usr/bin/topolvm-scheduler': 'moorage',
  'usr/bin/lvmd': 'moorage',
  'var/run': '../run',
};

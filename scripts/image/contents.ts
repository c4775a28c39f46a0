/**
 * What is in the image. Only these programs are taken from Debian's packages; the libraries that they are linked with
 * follow by themselves.
 */
export const programs: Readonly<Record<string, readonly string[]>> = {
  // For the script that starts Moorage, and for what Moorage itself asks of a shell.
  dash: ['sh'],
  coreutils: ['basename', 'cp', 'dirname', 'head', 'readlink', 'tail'],

  // Used where the node's own LVM is not (lvm-command-prefix). LVM calls thin_check when it activates a thin pool.
  lvm2: ['lvm'],
  dmsetup: ['dmsetup'],
  'thin-provisioning-tools': ['thin_check', 'thin_dump', 'thin_repair'],

  // Filesystems: to make, to grow and, for a person in need, to repair.
  e2fsprogs: ['e2fsck', 'mkfs.ext4', 'resize2fs'],
  xfsprogs: ['mkfs.xfs', 'xfs_growfs', 'xfs_repair'],
  'btrfs-progs': ['btrfs', 'mkfs.btrfs'],

  // Encrypted volumes.
  'cryptsetup-bin': ['cryptsetup'],

  // Mounts, loop devices, probing, erasing, freezing, locking, and the way to the node's own LVM.
  mount: ['losetup', 'mount', 'umount'],
  'util-linux': ['blkdiscard', 'blkid', 'fallocate', 'flock', 'fsfreeze', 'nsenter', 'wipefs'],
};

/** Node is no Debian package, but linked with libraries of these; the first says to scanners what release it is. */
export const otherPackages = ['base-files', 'libatomic1', 'libc6', 'libgcc-s1', 'libstdc++6'];

export const otherFiles = ['etc/lvm/lvm.conf', 'etc/mke2fs.conf', 'etc/os-release'];

/** Something is mounted on them, or a program looks for them. */
export const directories = ['dev', 'etc/topolvm', 'proc', 'root', 'run', 'sys', 'tmp', 'var/lib'];

/** As Debian has them today, and Moorage by all of its names. */
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

#!/bin/sh
# The guest's first process, on the host's root, mounted read-only. The kernel passes unknown arguments of its command line
# as environment variables: machine=DIR, the machine's directory on the host.
# Builds the guest's own root: the host's files, the tools over them, and a tmpfs over both for all writes. With systemd, its
# files are over the tools, and writes go to a disk instead, so that they are still there after a reboot. A power loss takes all
# that was not synced: the disk does not write it by chance.
. "$machine/guest.env"
busybox=$tools/usr/bin/busybox
root=/run/root
exec </dev/null >/dev/console 2>&1
fail() { echo "init: $*"; $busybox poweroff -f -n; }

$busybox mount -t tmpfs -o mode=755,size=90% run /run || fail "cannot mount /run"
$busybox mkdir -p /run/writes /run/tools /run/systemd $root
$busybox mount -t hostfs -o "$tools" tools /run/tools || fail "cannot see $tools"   # its own superblock: overlay rejects nested layers
layers=/run/tools:/
if [ -n "$systemd" ]; then
  $busybox mount -t hostfs -o "$systemd" systemd /run/systemd || fail "cannot see $systemd"
  $busybox mount -t ext4 -o noatime,commit=3600 "$root_disk" /run/writes || fail "cannot mount $root_disk"
  layers=/run/systemd:$layers
fi
$busybox mkdir -p /run/writes/upper /run/writes/work
$busybox mount -t proc proc /proc
$busybox insmod "$tools/usr/lib/modules/$($busybox uname -r)/kernel/fs/overlayfs/overlay.ko" || fail "the kernel has no overlay module"
# nosuid: without root on the host, its setuid programs (mount) belong to nobody here and would drop our rights
$busybox mount -t overlay -o nosuid,lowerdir=$layers,upperdir=/run/writes/upper,workdir=/run/writes/work,index=off,xino=off root $root || fail "cannot build the root"

$busybox mount -t proc proc $root/proc
$busybox mount -t sysfs sys $root/sys
$busybox mount -t cgroup2 cgroup $root/sys/fs/cgroup
$busybox mount --move /dev $root/dev
$busybox mkdir -p $root/dev/pts $root/dev/shm $root/run $root/tmp
$busybox mount -t devpts -o ptmxmode=666 pts $root/dev/pts
$busybox mount -t tmpfs shm $root/dev/shm
$busybox mount -t tmpfs -o mode=755 run $root/run
for share in "$machine" $shares; do
  $busybox mkdir -p "$root$share"
  $busybox mount -t hostfs -o "$share" share "$root$share" || fail "cannot share $share"
done

cd $root && $busybox mkdir -p run/old-root && $busybox pivot_root . run/old-root \
  && exec /usr/bin/busybox chroot . /usr/bin/busybox sh "$guest/prepare.sh" "$machine" </dev/null >/dev/console 2>&1
fail "cannot enter the new root"

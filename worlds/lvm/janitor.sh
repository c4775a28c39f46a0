# Waits until whoever made the world DIR is done or dead, and leaves nothing of it. The world's disks are thrown away, so
# no volume has to be removed properly: only what the kernel still holds must be taken from it.
dir=$1
cat >/dev/null

# A world in a machine: its kernel took everything along, as soon as its last process is gone.
[ ! -e "$dir/machine/lock" ] || flock "$dir/machine/lock" true

# A native world: no process of it may be left, then its device mapper devices go, uppermost first, then its loop devices.
[ ! -e "$dir/lock" ] || flock "$dir/lock" true
remove_device() {
  for holder in "/sys/block/$1/holders"/*; do
    [ ! -e "$holder" ] || ( remove_device "${holder##*/}" )
  done
  [ ! -e "/sys/block/$1" ] || dmsetup remove --force --retry "/dev/$1" >/dev/null
}
if [ -e "$dir/prefix" ]; then
  read -r prefix <"$dir/prefix"
  for device in $(dmsetup info --columns --noheadings --options blkdevname --select "name=~^$prefix"); do
    remove_device "$device"
  done
  for image in "$dir"/disk*; do
    for loop in $(losetup --noheadings --output NAME --associated "$image"); do losetup --detach "$loop"; done
  done
fi
rm -rf -- "$dir"

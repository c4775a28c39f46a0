# Waits until the owner of the world DIR is done or dead, then removes the world. Its disks are deleted, so volumes need not
# be removed properly: only what the kernel still uses must be released.
dir=$1
cat >/dev/null

# A world in a machine: everything is gone with the last process of its kernel.
[ ! -e "$dir/machine/lock" ] || flock "$dir/machine/lock" true

# A native world: waits for its processes, then removes its device mapper devices, topmost first, then its loop devices.
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

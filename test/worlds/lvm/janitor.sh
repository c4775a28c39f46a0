# Waits until whoever made the world DIR is done or dead, and leaves nothing of it. The world's disks are thrown away, so
# no volume has to be removed properly: only what the kernel still holds must be taken from it.
dir=$1
cat >/dev/null

# A world in a machine: its kernel took everything along, as soon as its last process is gone.
[ ! -e "$dir/machine/lock" ] || flock "$dir/machine/lock" true

# A native world: take away the device mapper devices that stand on its loop devices, uppermost first.
remove_holders() {
  for holder in "/sys/block/$1/holders"/*; do
    [ -e "$holder" ] || continue
    ( remove_holders "${holder##*/}" )
    dmsetup remove --force --retry "/dev/${holder##*/}" >/dev/null
  done
}
[ ! -e "$dir/lock" ] || flock "$dir/lock" true
for image in "$dir"/disk*; do
  for loop in $(losetup --noheadings --output NAME --associated "$image"); do
    remove_holders "${loop#/dev/}"
    losetup --detach "$loop"
  done
done
rm -rf -- "$dir"

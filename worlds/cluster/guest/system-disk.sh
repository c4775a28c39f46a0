# Mounts the node's system disk, the last one: it keeps what a real node keeps after a power loss. The rest of the root is
# in memory over the host's files.
set -eu
disk=$(ls /dev/ubd? | tail -1)
if ! blkid -p "$disk" >/dev/null; then
  mkfs.ext4 -qF -E nodiscard,lazy_itable_init=1,lazy_journal_init=1 "$disk"
fi
mkdir -p /sysdisk
mount -o noatime,barrier=0 "$disk" /sysdisk
for dir in var/lib/containerd var/lib/kubelet var/log/pods var/lib/moorage; do
  mkdir -p "/$dir" "/sysdisk/$dir"
  mount --bind "/sysdisk/$dir" "/$dir"
done
mount --make-rshared /

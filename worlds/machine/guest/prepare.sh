# The guest's first process from here on, in its own root: prepares the system, then becomes what serves calls from the host,
# or systemd, which starts that.
unset machine                                            # came with the environment; scripts must not see it
machine=$1
. "$machine/guest.env"
busybox=/usr/bin/busybox

cd /
$busybox umount -l /run/old-root
$busybox mount --make-rshared /
echo 2 2>/dev/null >/proc/sys/kernel/io_uring_disabled   # io_uring corrupts memory in this kind of kernel, and Node would use it
$busybox modprobe -a dm-mod loop                         # the other device mapper targets load by themselves when first used
for link in fd:/proc/self/fd stdin:/proc/self/fd/0 stdout:/proc/self/fd/1 stderr:/proc/self/fd/2; do   # there is no udev to create them
  $busybox ln -sf "${link#*:}" "/dev/${link%%:*}"
done
$busybox hostname "$name"
$busybox ip link set lo up
if [ -n "$address" ]; then
  $busybox ip addr add "$address" dev vec0
  $busybox ip link set vec0 up
  $busybox ip route add default via "$gateway"
fi
$busybox mkdir -p /run/lock/lvm /run/lvm /etc/lvm
[ -z "$systemd" ] || . "$guest/systemd.sh"
$busybox cp "$guest/lvm.conf" /etc/lvm/lvm.conf
exec $busybox sh "$guest/serve.sh" "$machine"

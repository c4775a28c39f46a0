# Becomes systemd. Sourced by prepare.sh.
units=/etc/systemd/system
if [ ! -e /etc/moorage-machine ]; then   # the first boot: makes it a machine of its own, without what the host has enabled
  $busybox rm -rf $units /etc/machine-id
  $busybox mkdir -p $units/sysinit.target.wants /etc/systemd/system-generators
  $busybox ln -s /lib/systemd/system/multi-user.target $units/default.target
  $busybox ln -s /lib/systemd/system/dm-event.socket /lib/systemd/system/lvm2-monitor.service $units/sysinit.target.wants   # as in Debian
  echo "$name" >/etc/hostname
  $busybox md5sum /etc/hostname | $busybox cut -c1-32 >/etc/machine-id   # without one, systemd enables every unit that it finds
  # These work on the host's files, such as /etc/fstab and /tmp, or are for users who log in. Links in /etc take precedence.
  for unused in sysusers.service tmpfiles-setup.service logind.service; do $busybox ln -s /dev/null $units/systemd-$unused; done
  $busybox ln -s /dev/null $units/getty.target
  for unused in /lib/systemd/system-generators/*; do $busybox ln -s /dev/null "/etc/systemd/system-generators/${unused##*/}"; done
  : >/etc/moorage-machine
fi

$busybox mkdir -p /run/systemd/system/sysinit.target.wants
$busybox cat >/run/systemd/system/calls.service <<UNIT
[Unit]
Description=Calls from the host
DefaultDependencies=no
[Service]
ExecStart=$busybox sh $guest/serve.sh $machine
KillMode=process
UNIT
$busybox ln -s ../calls.service /run/systemd/system/sysinit.target.wants/calls.service
exec /lib/systemd/systemd

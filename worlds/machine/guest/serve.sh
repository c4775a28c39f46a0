# Serves calls from the host: the guest's first process, or a service of systemd.
# A line on the serial port is a doorbell: "run ID", "kill SESSION" or "off"; the script is in calls/ID of the shared directory.
machine=$1
. "$machine/guest.env"
set -a
. "$machine/environment"
set +a
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
busybox=/usr/bin/busybox

# Whether anything runs besides the first process and us; kernel threads have no program.
others() {
  running=0
  for process in /proc/[0-9]*; do [ ! -e "$process/exe" ] || running=$((running + 1)); done
  [ $running -gt 2 ]
}

# Ends every process, syncs the disks and powers off, like a node that is shut down.
power_off() {
  kill -TERM -1
  for _ in $($busybox seq 100); do others || break; $busybox sleep 0.1; done
  kill -KILL -1
  $busybox umount -a -r; $busybox sync; $busybox poweroff -f -n
}

# Runs calls/ID/script in its own session, so that all of it can be killed; the line in calls/ID/exit is written last.
call() {
  call=$machine/calls/$1
  $busybox setsid /bin/sh "$call/script" </dev/null >"$call/stdout" 2>"$call/stderr" &
  echo $! >"$call/leader"
  wait $!
  echo $? >"$call/exit"
}

serve() {
  while read -r verb what; do
    case $verb in
      run) (call "$what" &) ;;                # forked twice: the first process reaps it, and we keep listening
      kill) kill -KILL "-$what" ;;
      off) if [ -n "$systemd" ]; then systemctl poweroff; else power_off; fi ;;
    esac
  done
}

exec 4</dev/ttyS0                                        # open before we report ready, or the first ring is lost
$busybox stty raw -echo <&4
serve <&4 4<&- &
exec 4<&-
: >"$machine/ready"
[ -z "$boot" ] || ($busybox setsid /bin/sh "$boot" </dev/null >"$machine/boot.log" 2>&1 &)
while :; do wait; done                                   # reaps orphans

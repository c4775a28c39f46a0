# Fills the template of the nodes' system disk: the images are imported once for all nodes.
set -eu
here=$(dirname "$0")
. "$here/system-disk.sh"
. "$here/containerd.sh"
for archive in "$NODE_DIR"/images/*.tar; do ctr -n k8s.io images import "$archive"; done
kill $containerd
wait $containerd || true
umount /var/lib/containerd /var/lib/kubelet /var/log/pods /var/lib/moorage /sysdisk

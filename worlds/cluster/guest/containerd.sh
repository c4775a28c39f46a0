# Starts containerd and waits for its socket; leaves its pid in $containerd.
mkdir -p /etc/containerd /etc/cni/net.d
cat >/etc/containerd/config.toml <<TOML
version = 2
oom_score = 0
disabled_plugins = [
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.native", "io.containerd.internal.v1.opt",
  "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp",
]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$PAUSE_IMAGE"
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "crun" # in a machine, it starts a container twice as fast as runc
TOML
containerd >"$NODE_DIR/containerd.log" 2>&1 &
containerd=$!
until [ -S /run/containerd/containerd.sock ]; do
  kill -0 $containerd || { echo "containerd ended; see containerd.log"; exit 1; }
  sleep 0.1
done

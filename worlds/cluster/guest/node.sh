# Turns the machine into a Kubernetes node: system disk, volume group, containerd, kubelet. Ends with the kubelet.
set -eu
here=$(dirname "$0")
step() { echo "$(cut -d' ' -f1 /proc/uptime) s: $*"; }

# Names resolve at once or fail at once: nothing listens on port 53, and the kubelet looks up its own name.
rm -f /etc/resolv.conf /etc/machine-id /etc/hosts
echo 'nameserver 127.0.0.1' >/etc/resolv.conf
echo "$NODE_NAME$NODE_DIR" | md5sum | cut -c1-32 >/etc/machine-id
printf '127.0.0.1 localhost\n%s %s\n' "$NODE_ADDRESS" "$NODE_NAME" >/etc/hosts
echo 1 >/proc/sys/net/ipv4/ip_forward
for d in all default; do echo 0 >/proc/sys/net/ipv4/conf/$d/accept_redirects; done
# cAdvisor rejects a processor without a clock rate.
sed 's/^model name.*/&\ncpu MHz\t\t: 2000.000/' /proc/cpuinfo >/run/cpuinfo
mount --bind /run/cpuinfo /proc/cpuinfo

. "$here/system-disk.sh"
step "system disk mounted"

# Two of the other disks are one volume group, the third is for a thin pool. Without udev nobody activates their
# volumes at boot, so we do.
if ! vgs "$VOLUME_GROUP" "$THIN_VOLUME_GROUP" >/dev/null 2>&1; then
  vgcreate -q "$VOLUME_GROUP" /dev/ubda /dev/ubdb
  vgcreate -q "$THIN_VOLUME_GROUP" /dev/ubdc
  lvcreate -q --type thin-pool --size 3g --name "$THIN_POOL" "$THIN_VOLUME_GROUP"
fi
vgchange -qay "$VOLUME_GROUP" "$THIN_VOLUME_GROUP"
step "volume groups $VOLUME_GROUP and $THIN_VOLUME_GROUP ready"

. "$here/containerd.sh"
step "containerd listens"
cat >/etc/cni/net.d/10-pods.conflist <<JSON
{
  "cniVersion": "0.4.0",
  "name": "pods",
  "plugins": [{
    "type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
    "ipam": {
      "type": "host-local", "dataDir": "/run/cni-ipam",
      "ranges": [[{ "subnet": "$POD_SUBNET" }]], "routes": [{ "dst": "0.0.0.0/0" }]
    }
  }]
}
JSON
mkdir -p /etc/kubelet
cat >/etc/kubelet/config.yaml <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $NODE_ADDRESS
healthzBindAddress: 127.0.0.1
tlsCertFile: $NODE_DIR/kubelet.crt
tlsPrivateKeyFile: $NODE_DIR/kubelet.key
authentication: { anonymous: { enabled: false }, webhook: { enabled: true }, x509: { clientCAFile: $NODE_DIR/ca.crt } }
authorization: { mode: Webhook }
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
failSwapOn: false
makeIPTablesUtilChains: false
resolvConf: /etc/resolv.conf
imageGCHighThresholdPercent: 100
evictionHard: { memory.available: 20Mi, nodefs.available: 1%, imagefs.available: 1% }
syncFrequency: 10s
nodeStatusUpdateFrequency: 2s
nodeLeaseDurationSeconds: 8
serializeImagePulls: false
crashLoopBackOff: { maxContainerRestartPeriod: 1s }
YAML
# A kubelet that starts before the API server backs off for seconds.
until busybox nc -w 2 $API_SERVER </dev/null 2>/dev/null; do sleep 0.2; done
step "API server answers"
"$KUBELET" --config=/etc/kubelet/config.yaml --kubeconfig="$NODE_DIR/kubelet.kubeconfig" \
  --hostname-override="$NODE_NAME" --node-ip="$NODE_ADDRESS" >"$NODE_DIR/kubelet.log" 2>&1 &
kubelet=$!
step "kubelet started"
wait $kubelet

import type { Namespaces } from './namespaces.ts';

/** The addresses of a cluster. They exist only in its network namespace, so every cluster uses the same ones. */
export const network = {
  gateway: '10.99.0.1',
  /** The `kubernetes` Service has this address; the API server listens on it itself, so no kube-proxy is needed. */
  apiServer: { host: '10.96.0.1', port: 443 },
  services: '10.96.0.0/16',
  nodeAddress: (index: number) => `10.99.0.${10 + index}`,
  podSubnet: (index: number) => `10.244.${index}.0/24`,
  tap: (index: number) => `tap${index}`,
} as const;

/** A bridge that connects all nodes and routes between their pods. */
export async function createBridge(namespaces: Namespaces): Promise<void> {
  await inside(
    namespaces,
    `ip link set lo up
     ip link add br0 type bridge forward_delay 0
     ip addr add ${network.gateway}/24 dev br0
     ip addr add ${network.apiServer.host}/32 dev br0
     ip link set br0 up
     echo 1 >/proc/sys/net/ipv4/ip_forward
     # pods of two nodes talk through us: a redirect would tell the nodes of a way that they do not have
     for d in all default br0; do echo 0 >/proc/sys/net/ipv4/conf/$d/send_redirects; done
     f=/proc/sys/net/bridge/bridge-nf-call-iptables; [ ! -e $f ] || echo 0 >$f`,
  );
}

/** A port on the bridge for one more node, with the route to its pods. */
export async function createTap(namespaces: Namespaces, index: number): Promise<void> {
  const tap = network.tap(index);
  await inside(
    namespaces,
    `ip tuntap add ${tap} mode tap
     ip link set ${tap} master br0 up
     ip route add ${network.podSubnet(index)} via ${network.nodeAddress(index)}`,
  );
}

/** Unplugs a node from the bridge or plugs it in again. The tap stays up: a machine never recovers from a tap set down. */
export async function setPlugged(namespaces: Namespaces, index: number, plugged: boolean): Promise<void> {
  await inside(namespaces, `ip link set ${network.tap(index)} ${plugged ? 'master br0' : 'nomaster'}`);
}

async function inside(namespaces: Namespaces, script: string): Promise<void> {
  await namespaces.run(['sh', '-euc', script]);
}

import { join } from 'node:path';
import type { Sidecar } from './binaries.ts';
import type { Cluster } from './cluster.ts';
import { Component } from './component.ts';

export interface SidecarOptions {
  readonly cluster: Cluster;
  readonly namespace: string;
  /** The controller's CSI socket. */
  readonly socket: string;
  /** Has the rights of the controller's ServiceAccount. */
  readonly kubeconfig: string;
}

/** The sidecars in the controller's pod: each turns objects of one kind into CSI calls. */
export function controllerSidecars({ cluster, namespace, socket, kubeconfig }: SidecarOptions): readonly Component[] {
  const sidecar = (name: Sidecar, flags: readonly string[], env: Readonly<Record<string, string>> = {}) => {
    const common = [`--csi-address=${socket}`, `--kubeconfig=${kubeconfig}`, '--leader-election=false'];
    return component(cluster, name, [...common, ...flags], env);
  };
  return [
    sidecar(
      'csi-provisioner',
      [
        '--feature-gates=Topology=true',
        '--strict-topology',
        '--extra-create-metadata',
        '--default-fstype=ext4',
        '--enable-capacity',
        '--capacity-ownerref-level=-1', // no pod could own the objects
      ],
      { NAMESPACE: namespace },
    ),
    sidecar('csi-resizer', [
      '--timeout=60s',
      '--handle-volume-inuse-error=false', // our volumes grow while in use, so it need not watch pods
    ]),
    sidecar('csi-snapshotter', ['--extra-create-metadata']),
  ];
}

/** Every cluster with snapshots has one, independent of its drivers. */
export function snapshotController(cluster: Cluster, kubeconfig: string): Component {
  return component(cluster, 'snapshot-controller', [`--kubeconfig=${kubeconfig}`, '--leader-election=false']);
}

function component(
  { namespaces, dir, binaries }: Cluster,
  name: Sidecar,
  flags: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Component {
  return new Component(namespaces, join(dir, 'logs'), name, [binaries.sidecars[name], ...flags], env);
}

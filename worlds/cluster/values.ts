import { parameters } from '../../src/api/names.ts';
import { thin, volumeGroup } from './cluster-node.ts';
import { sidecarImages } from './sidecar-images.ts';

/** What every node offers: its volume group, its thin pool, and a directory as for nodes that have no disk to spare. */
const deviceClasses = [
  { name: 'lvm', 'volume-group': volumeGroup, default: true, 'spare-gb': 0 },
  {
    name: 'thin',
    type: 'thin',
    'volume-group': thin.volumeGroup,
    'thin-pool': { name: thin.pool, 'overprovision-ratio': 4 },
  },
  { name: 'file', type: 'file', path: '/var/lib/moorage', 'spare-gb': 0 },
];

/** With what values the chart is installed on test clusters. */
export const values = {
  image: {
    pullPolicy: 'Never',
    csi: {
      csiProvisioner: sidecarImages['csi-provisioner'],
      csiResizer: sidecarImages['csi-resizer'],
      csiSnapshotter: sidecarImages['csi-snapshotter'],
    },
  },
  lvmd: { deviceClasses },
  storageClasses: [
    { name: 'moorage' },
    ...['thin', 'file'].map((deviceClass) => ({
      name: `moorage-${deviceClass}`,
      storageClass: { additionalParameters: { [parameters.deviceClass]: deviceClass } },
    })),
  ],
  snapshot: { enabled: true },
  // Quicker than two, and nobody has to guess which of them does the work.
  controller: { replicaCount: 1 },
  // An upgrade of all nodes at once is quicker, too.
  node: { maxSurge: '100%' },
};

import { parameters } from '../../src/api/names.ts';
import { thin, volumeGroup } from './cluster-node.ts';
import { sidecarImages } from './sidecar-images.ts';

/** The device classes of every node: its volume group, its thin pool, and a directory, as on nodes without a spare disk. */
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

/** The values of the chart on test clusters. */
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
  // Faster than two, and it is clear which one does the work.
  controller: { replicaCount: 1 },
  // Upgrading all nodes at once is faster.
  node: { maxSurge: '100%' },
};

/**
 * Every name that the outside world sees. Those that start with `topolvm` are TopoLVM's own, so that its objects and
 * volumes work with Moorage as they are; what is new is below `moorage.dev`.
 */

/** The CSI driver, as StorageClasses and PersistentVolumes name it. */
export const driverName = 'topolvm.io';

/** The label on a Node, and the key in a volume's topology, that ties a volume to its node. */
export const topologyKey = 'topology.topolvm.io/node';

/** StorageClass parameters. */
export const parameters = {
  deviceClass: 'topolvm.io/device-class',
  lvcreateOptionClass: 'topolvm.io/lvcreate-option-class',
} as const;

/** Node annotations `capacity.topolvm.io/<device class>` and `…/00default`, in bytes. */
export const capacityAnnotationPrefix = 'capacity.topolvm.io/';
export const defaultCapacityAnnotation = `${capacityAnnotationPrefix}00default`;

/** The LogicalVolume resource. */
export const logicalVolume = {
  group: 'topolvm.io',
  version: 'v1',
  plural: 'logicalvolumes',
  kind: 'LogicalVolume',
  finalizer: 'topolvm.io/logicalvolume',
} as const;

export const createdByLabel = { key: 'app.kubernetes.io/created-by', value: 'topolvm-controller' } as const;

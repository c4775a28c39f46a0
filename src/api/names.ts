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
  mkfsOptions: 'moorage.dev/mkfs-options',
  rootMode: 'moorage.dev/root-mode',
  rootOwner: 'moorage.dev/root-owner',
} as const;

/** Whose names are ours alone: a StorageClass parameter below these that we do not know is a mistake. */
export const parameterPrefixes = ['topolvm.io/', 'moorage.dev/'] as const;

/** What csi-provisioner adds to the parameters when it runs with `--extra-create-metadata`. */
export const claimParameters = {
  namespace: 'csi.storage.k8s.io/pvc/namespace',
  name: 'csi.storage.k8s.io/pvc/name',
} as const;

/** Kubernetes' own, on a claim that waits for its first pod: the node that the scheduler chose for it. */
export const selectedNodeAnnotation = 'volume.kubernetes.io/selected-node';

/** What the kubelet adds to a volume's context when it publishes it. */
export const publishContext = {
  ephemeral: 'csi.storage.k8s.io/ephemeral',
  podUid: 'csi.storage.k8s.io/pod.uid',
} as const;

/** How many GiB an inline ephemeral volume asks for, in its volume attributes: today's name, and the one of old. */
export const ephemeralSizeAttributes = ['topolvm.io/size', 'topolvm.cybozu.com/size'] as const;

/** A tag of each inline ephemeral volume: such a volume goes when it is unpublished, and no other does. */
export const ephemeralTag = 'ephemeral';

/** The pod that an inline ephemeral volume was made for, by uid: a tag of the volume itself. */
export const podTag = 'moorage.dev/pod';

/** Node annotations `capacity.topolvm.io/<device class or volume group>` and `…/00default`, in bytes. */
export const capacityAnnotationPrefix = 'capacity.topolvm.io/';
export const defaultCapacityAnnotation = `${capacityAnnotationPrefix}00default`;

/** Who manages the CSIStorageCapacity objects that we write, in Kubernetes' label for that. */
export const capacityManager = 'moorage-controller';

/** What a container asks for, one of it, so that kube-scheduler asks the extender about its pod. */
export const capacityResource = 'topolvm.io/capacity';

/** Keeps a Node until the controller has let go of what was on it: the name that we set, and the one of TopoLVM today. */
export const nodeFinalizer = 'topolvm.cybozu.com/node';
export const otherNodeFinalizer = 'topolvm.io/node';

/** What TopoLVM 0.18 to 0.39 has put on claims, and has removed itself. */
export const oldClaimFinalizers = ['topolvm.io/pvc', 'topolvm.cybozu.com/pvc'] as const;

/** The LogicalVolume resource. */
export const logicalVolume = {
  group: 'topolvm.io',
  version: 'v1',
  plural: 'logicalvolumes',
  kind: 'LogicalVolume',
  finalizer: 'topolvm.io/logicalvolume',
} as const;

export const createdByLabel = { key: 'app.kubernetes.io/created-by', value: 'topolvm-controller' } as const;

/** Marks a LogicalVolume whose node is gone: nobody may touch the volume behind it any more. */
export const pendingDeletionAnnotation = 'topolvm.io/pendingdeletion';

/** The claim a volume was made for, `<namespace>/<name>`: an annotation of the LogicalVolume, a tag of the volume itself. */
export const claimName = 'moorage.dev/claim';

/** The device class that has a volume, where its LogicalVolume names none or one that was renamed: an annotation of it. */
export const heldByAnnotation = 'moorage.dev/held-by';

/** What a LogicalVolume is a copy of, `volume/<id>` or `snapshot/<id>`: an annotation of it, true also when that is gone. */
export const contentSourceAnnotation = 'moorage.dev/content-source';

/** When the controller last asked the node to grow a volume: an annotation of the LogicalVolume. */
export const resizeRequestedAnnotation = 'topolvm.io/resize-requested-at';

/** Parameters of a VolumeAttributesClass, and the annotations of the LogicalVolume that keep them for the node. */
export const ioLimitNames = {
  readBytesPerSecond: 'moorage.dev/read-bytes-per-second',
  writeBytesPerSecond: 'moorage.dev/write-bytes-per-second',
  readOperationsPerSecond: 'moorage.dev/read-operations-per-second',
  writeOperationsPerSecond: 'moorage.dev/write-operations-per-second',
} as const;

/** A Node annotation, `true` where the node can hold its volumes to IO limits. */
export const ioLimitsAnnotation = 'moorage.dev/io-limits';

/** The LogicalVolume, and so the PersistentVolume, that a volume belongs to: a tag of the volume itself. */
export const volumeTag = 'moorage.dev/volume';

/** Tags of a volume that CSI's calls have made without Kubernetes: all that is known of it. */
export const recordTagPrefix = 'standalone.moorage.dev/';

/** The MutatingWebhookConfiguration that tells the API server of our webhooks. */
export const webhookConfigurationName = 'moorage';

/** Prometheus metrics. */
export const metrics = {
  volumeGroupAvailableBytes: 'topolvm_volumegroup_available_bytes',
  volumeGroupSizeBytes: 'topolvm_volumegroup_size_bytes',
  thinPoolDataPercent: 'topolvm_thinpool_data_percent',
  thinPoolMetadataPercent: 'topolvm_thinpool_metadata_percent',
  thinPoolSizeBytes: 'topolvm_thinpool_size_bytes',
  thinPoolOverprovisionedAvailable: 'topolvm_thinpool_overprovisioned_available',
  volumeSizeBytes: 'moorage_volume_size_bytes',
  volumeUsedBytes: 'moorage_volume_used_bytes',
  callSeconds: 'moorage_call_seconds',
  poolOperationSeconds: 'moorage_pool_operation_seconds',
  queueKeys: 'moorage_queue_keys',
  watchSynced: 'moorage_watch_synced',
  watchObjects: 'moorage_watch_objects',
  watchLastEventAgeSeconds: 'moorage_watch_last_event_age_seconds',
  watchReconnects: 'moorage_watch_reconnects_total',
  watchRelists: 'moorage_watch_relists_total',
  configAccepted: 'moorage_config_accepted',
  lvmCommands: 'moorage_lvm_commands_total',
  lvmShellRestarts: 'moorage_lvm_shell_restarts_total',
  lvmShellFailures: 'moorage_lvm_shell_failures_total',
} as const;

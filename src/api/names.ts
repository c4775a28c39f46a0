/**
 * Every name that the outside world sees. Names with `topolvm` are TopoLVM's own, so that its objects and volumes work
 * unchanged with Moorage; new names are below `moorage.dev`.
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
  onNodeRemoval: 'moorage.dev/on-node-removal',
  onDrain: 'moorage.dev/on-drain',
  onScaleDown: 'moorage.dev/on-scale-down',
  /** Also an annotation of the LogicalVolume. */
  encryption: 'moorage.dev/encryption',
  /** Also an annotation of the claim. */
  crossNode: 'moorage.dev/cross-node',
} as const;

/** The only value of the parameter for encryption. */
export const luks2 = 'luks2';

/** The only value of the parameter for copies on another node than that of their source. */
export const crossNodeAllowed = 'allow';

/**
 * What happens to a claim whose node is removed: an annotation of the claim, or else the StorageClass parameter. `drop`
 * gives the volume up, `keep` releases the claim and retains the volume, `wait` leaves both until a person decides.
 */
export const onNodeRemoval = {
  annotation: parameters.onNodeRemoval,
  policies: ['drop', 'keep', 'wait'],
} as const;

export type OnNodeRemoval = (typeof onNodeRemoval.policies)[number];

/** Undefined for any other word. */
export function asOnNodeRemoval(word: string): OnNodeRemoval | undefined {
  return onNodeRemoval.policies.find((policy) => policy === word);
}

/**
 * What happens when a pod is evicted from a node that is drained: an annotation of its claim, or else the StorageClass
 * parameter. With `wait` the pod waits for its node, with `move` its volumes move first, with `delegate` an operator first
 * moves its data out of the volume, and `drop` gives the volume up.
 */
export const onDrain = {
  annotation: parameters.onDrain,
  policies: ['wait', 'move', 'delegate', 'drop'],
} as const;

export type OnDrain = (typeof onDrain.policies)[number];

/** Undefined for any other word. */
export function asOnDrain(word: string): OnDrain | undefined {
  return onDrain.policies.find((policy) => policy === word);
}

/**
 * The node whose drain has set the tombstone of a claim, or created a move; what has not begun is withdrawn when the drain
 * is over: an annotation of the claim, or of the VolumeMove.
 */
export const drainedFromAnnotation = 'moorage.dev/drained-from';

/**
 * The node and the claims, separated by `/`, of an evicted pod whose volumes are being given up: an annotation that Moorage
 * sets on the first of these claims until all others have their tombstone.
 */
export const droppingAnnotation = 'moorage.dev/dropping';

/**
 * How Moorage and an operator agree that data has left a volume: annotations of the claim, described in docs/operators.md.
 * Moorage sets `request`, to a value that is different each time. The operator moves its data elsewhere, and copies the
 * value to `acknowledgement`. Only if both are equal has the data left (`hasLeft`): an answer to an earlier request does not
 * count. Moorage removes all three if the request is withdrawn.
 */
export const leave = {
  /** `<node>@<time>`, by Moorage. */
  request: 'moorage.dev/leave',
  /** The value of `request`, by the operator. */
  acknowledgement: 'moorage.dev/left',
  /** How far it is, or why it does not leave, in the operator's words. Shown to the person who waits. */
  message: 'moorage.dev/leave-message',
} as const;

/**
 * What happens to the claim of a pod that its StatefulSet was scaled down by: an annotation of the claim, or else the
 * StorageClass parameter. `keep` is the default.
 */
export const onScaleDown = {
  annotation: parameters.onScaleDown,
  policies: ['keep', 'delete'],
} as const;

/**
 * Orders on a claim to release it, by its annotations: `graceful` after its data has left the volume, `force` without. The
 * second name is that of the document that first described them, for Elastic's operator.
 */
export const tombstone = {
  annotations: ['moorage.dev/delete', 'elasticsearch.k8s.elastic.co/delete'],
  words: ['graceful', 'force'],
  /** The name of the PersistentVolume: its data is given up although it is healthy and in use. */
  confirm: 'moorage.dev/confirm',
  /** The name of the VolumeMove that carries out `graceful`, by Moorage. */
  move: 'moorage.dev/delete-move',
} as const;

/** `true` on a claim keeps CPU and memory on the node of its volume, for the pod that will return. */
export const reserve = {
  annotation: 'moorage.dev/reserve',
  policies: ['true', 'false'],
  /** On the placeholder, a pod that never runs: the scheduling gate that keeps it from running, and its label. */
  gate: 'moorage.dev/reserve',
  label: 'moorage.dev/reserve',
  /** Annotation of a placeholder: the instance of kube-scheduler that counts it. */
  toldAnnotation: 'moorage.dev/told-scheduler',
} as const;

/** StorageClass parameters that matter after a volume is created: its PersistentVolume keeps them. */
export const keptParameters = [
  parameters.mkfsOptions,
  parameters.rootMode,
  parameters.rootOwner,
  parameters.onNodeRemoval,
  parameters.onDrain,
  parameters.onScaleDown,
  parameters.encryption,
] as const;

/** Entries of the Secret with the key of an encrypted volume. The previous one is there only while a key is replaced. */
export const secretEntries = { passphrase: 'passphrase', previous: 'previous-passphrase' } as const;

/** StorageClass parameters of Kubernetes: each names, with `-namespace`, the Secret that a CSI call gets. */
export const secretParameters = {
  stage: 'csi.storage.k8s.io/node-stage-secret-name',
  publish: 'csi.storage.k8s.io/node-publish-secret-name',
  expand: 'csi.storage.k8s.io/node-expand-secret-name',
} as const;

/** Prefixes of this driver: an unknown StorageClass parameter with one of them is an error. */
export const parameterPrefixes = ['topolvm.io/', 'moorage.dev/'] as const;

/** Parameters that csi-provisioner adds when it runs with `--extra-create-metadata`. */
export const claimParameters = {
  namespace: 'csi.storage.k8s.io/pvc/namespace',
  name: 'csi.storage.k8s.io/pvc/name',
} as const;

/** Annotation of Kubernetes on a claim that waits for its first pod: the node that the scheduler chose. */
export const selectedNodeAnnotation = 'volume.kubernetes.io/selected-node';

/** What the kubelet adds to the context of a volume that it publishes. */
export const publishContext = {
  ephemeral: 'csi.storage.k8s.io/ephemeral',
  podUid: 'csi.storage.k8s.io/pod.uid',
} as const;

/** Volume attributes with the requested GiB of an inline ephemeral volume: the current name and the old one. */
export const ephemeralSizeAttributes = ['topolvm.io/size', 'topolvm.cybozu.com/size'] as const;

/** A tag of each inline ephemeral volume: only volumes with it are removed when they are unpublished. */
export const ephemeralTag = 'ephemeral';

/** The uid of the pod of an inline ephemeral volume: a tag of the volume itself. */
export const podTag = 'moorage.dev/pod';

/** Node annotations `capacity.topolvm.io/<device class or volume group>` and `…/00default`, in bytes. */
export const capacityAnnotationPrefix = 'capacity.topolvm.io/';
export const defaultClassName = '00default';
export const defaultCapacityAnnotation = `${capacityAnnotationPrefix}${defaultClassName}`;

/** Label of Cluster Autoscaler on the nodes that it only imagines, to find out whether a new one would help a pod: `true`. */
export const templateNodeLabel = 'cluster-autoscaler.kubernetes.io/template-node';

/** Label value for the manager of the CSIStorageCapacity objects that Moorage writes. */
export const capacityManager = 'moorage-controller';

/** The extended resource that a container requests, so that kube-scheduler calls the extender for its pod. */
export const capacityResource = 'topolvm.io/capacity';

/** Keeps a Node until the controller has released its volumes: the name that Moorage sets, and TopoLVM's current one. */
export const nodeFinalizer = 'topolvm.cybozu.com/node';
export const otherNodeFinalizer = 'topolvm.io/node';
/** Keeps a Node while Karpenter drains it. */
export const karpenterFinalizer = 'karpenter.sh/termination';

/** Finalizers that TopoLVM 0.18 to 0.39 set on claims and removed itself. */
export const oldClaimFinalizers = ['topolvm.io/pvc', 'topolvm.cybozu.com/pvc'] as const;

/** Finalizers of Kubernetes and of sidecars, which keep objects that are still needed. */
export const otherFinalizers = {
  /** Of a claim that pods use. */
  claimInUse: 'kubernetes.io/pvc-protection',
  /** Of a claim while a snapshot of it is created. */
  snapshotSource: 'snapshot.storage.kubernetes.io/pvc-as-source-protection',
  /** Of a claim while it is copied to another claim. */
  copySource: 'provisioner.storage.kubernetes.io/cloning-protection',
  /** Of a VolumeSnapshot while a claim is created from it. */
  restoreSource: 'snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection',
  /** Of a PersistentVolume until its volume is removed. */
  provisioned: 'external-provisioner.volume.kubernetes.io/finalizer',
} as const;

/** The LogicalVolume resource. */
export const logicalVolume = {
  group: 'topolvm.io',
  version: 'v1',
  plural: 'logicalvolumes',
  kind: 'LogicalVolume',
  finalizer: 'topolvm.io/logicalvolume',
} as const;

/** The NodeStorage resource: one object per node, with the node's name. */
export const nodeStorage = {
  group: 'moorage.dev',
  version: 'v1alpha1',
  plural: 'nodestorages',
  kind: 'NodeStorage',
} as const;

/** The VolumeMove resource. */
export const volumeMove = {
  group: 'moorage.dev',
  version: 'v1alpha1',
  plural: 'volumemoves',
  kind: 'VolumeMove',
  finalizer: 'moorage.dev/volume-move',
} as const;

/** Ends a move before its verdict, if it is `true`: an annotation of the VolumeMove. */
export const abortAnnotation = 'moorage.dev/abort';

/** The uid of the VolumeMove that fills the volume, until it has all data and can be used: an annotation of the LogicalVolume. */
export const moveAnnotation = 'moorage.dev/move';

/**
 * Marks the source of the VolumeMove with this uid, until the move is over: an annotation of the LogicalVolume. Each move has a
 * key of its own, because a source may be copied several times at once.
 */
export function sourceMark(moveUid: string): string {
  return `moving.moorage.dev/${moveUid}`;
}

/** The node that the volume of a claim has moved to: an annotation of the claim, whose change makes Kubernetes look at it. */
export const movedAnnotation = 'moorage.dev/moved-to';

export const createdByLabel = { key: 'app.kubernetes.io/created-by', value: 'topolvm-controller' } as const;

/** Marks a LogicalVolume whose node was removed: its volume must not be touched any more. */
export const pendingDeletionAnnotation = 'topolvm.io/pendingdeletion';

/** The uid of the Node that was deleted while the volume was on its disks: an annotation of the LogicalVolume. */
export const nodeRemovedAnnotation = 'moorage.dev/node-removed';

/** Lets others than the controller delete a LogicalVolume, if it is `true`: an annotation of the LogicalVolume. */
export const allowDeleteAnnotation = 'moorage.dev/allow-delete';

/** The claim of a volume, `<namespace>/<name>`: an annotation of the LogicalVolume, a tag of the volume itself. */
export const claimKey = 'moorage.dev/claim';

/** The device class of a volume whose LogicalVolume names none or a renamed one: an annotation of the LogicalVolume. */
export const heldByAnnotation = 'moorage.dev/held-by';

/** `true` once the data of a deleted LogicalVolume's volume was erased: an annotation, set before its finalizer is removed. */
export const erasedAnnotation = 'moorage.dev/erased';

/**
 * Why the node could not use the filesystem of a volume, in one sentence; absent since the last attempt that succeeded: an
 * annotation of the LogicalVolume.
 */
export const filesystemErrorAnnotation = 'moorage.dev/filesystem-error';

/**
 * The name of an existing volume on the node's disks that a LogicalVolume adopts, instead of getting a new one: an annotation
 * of the LogicalVolume, set when it is created.
 */
export const adoptAnnotation = 'moorage.dev/adopt';

/**
 * Since when a volume has had neither a PersistentVolume nor the claim that it was created for. It is an annotation of the
 * LogicalVolume, by which the controller asks the node whether the volume was ever used.
 */
export const unclaimedAnnotation = 'moorage.dev/unclaimed';

/** The node's answer, always `true`: the volume was never used, and its node will not let it be used: an annotation of the LogicalVolume. */
export const neverUsedAnnotation = 'moorage.dev/never-used';

/** The source of a copy, `volume/<id>` or `snapshot/<id>`, even after its removal: an annotation of the LogicalVolume. */
export const contentSourceAnnotation = 'moorage.dev/content-source';

/** When the controller last requested growth: an annotation of the LogicalVolume. */
export const resizeRequestedAnnotation = 'topolvm.io/resize-requested-at';

/** Parameters of a VolumeAttributesClass, and the annotations of the LogicalVolume that store them for the node. */
export const ioLimitNames = {
  readBytesPerSecond: 'moorage.dev/read-bytes-per-second',
  writeBytesPerSecond: 'moorage.dev/write-bytes-per-second',
  readOperationsPerSecond: 'moorage.dev/read-operations-per-second',
  writeOperationsPerSecond: 'moorage.dev/write-operations-per-second',
} as const;

/** A Node annotation, `true` if the node can enforce IO limits. */
export const ioLimitsAnnotation = 'moorage.dev/io-limits';

/** The LogicalVolume, and so the PersistentVolume, of a volume: a tag of the volume itself. */
export const volumeTag = 'moorage.dev/volume';

/** Tags of a volume created by CSI calls without Kubernetes: its only record. */
export const recordTagPrefix = 'standalone.moorage.dev/';

/** The MutatingWebhookConfiguration and the ValidatingWebhookConfiguration of Moorage's webhooks. */
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
  orphans: 'moorage_orphans',
  staticVolumes: 'moorage_static_volumes',
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

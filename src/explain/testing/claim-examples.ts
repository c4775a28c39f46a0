import { claim, pod, storageClass, volumeOf } from './objects.ts';
import {
  copy,
  data,
  type Example,
  event,
  logicalVolume,
  ofClaim,
  ofSet,
  owned,
  provisioningFailed,
  released,
  selected,
  set,
} from './situations.ts';

/** A claim that has no volume. */
export const claimExamples: readonly Example[] = [
  {
    code: 'NoStorageClass',
    sentence:
      'claim data waits: it names no StorageClass, and the cluster has no default; mark a StorageClass as the default: the claim then gets it',
    explain: () => ofClaim(claim('data', '20Gi', { spec: { storageClassName: undefined } })),
  },
  {
    code: 'EmptyStorageClass',
    sentence:
      'claim data waits: its storageClassName is empty, so it gets only a PersistentVolume that somebody creates by hand, and none fits; create the claim again with a StorageClass',
    explain: () => ofClaim(claim('data', '20Gi', { spec: { storageClassName: '' } })),
  },
  {
    code: 'StorageClassMissing',
    sentence:
      'claim data waits: there is no StorageClass fasst (did you mean fast?); create it, or create the claim again with another one',
    explain: () => ofClaim(claim('data', '20Gi', { spec: { storageClassName: 'fasst' } })),
  },
  {
    code: 'ProvisionerUnknown',
    sentence:
      'claim data waits: StorageClass fast names the provisioner topolvm.com, which is not installed; install it, or use a StorageClass with topolvm.io',
    explain: () => ofClaim(data, { storageClasses: [storageClass('fast', { provisioner: 'topolvm.com' })] }),
  },
  {
    code: 'WaitsForPod',
    sentence: 'claim data waits: its volume is created when a pod uses it, and none does; this is normal',
    explain: () => ofClaim(data),
  },
  {
    code: 'SchedulerBypassed',
    sentence:
      'claim data waits: pod db-0 was created with nodeName b and bypassed the scheduler, so no volume is created for claim data; replace nodeName in the pod with nodeSelector kubernetes.io/hostname: b',
    explain: () => ofClaim(data, { pods: [pod('db-0', ['data'], { spec: { nodeName: 'b' } })] }),
  },
  {
    code: 'VolumeMissing',
    sentence:
      'claim data waits: it names PersistentVolume disk-1, which does not exist; create it, or create the claim again without volumeName',
    explain: () => ofClaim(claim('data', '20Gi', { spec: { volumeName: 'disk-1' } })),
  },
  {
    code: 'VolumeUnfit',
    sentence:
      'claim data waits: it cannot have PersistentVolume pv-data: it has 20Gi, and the claim requests 30Gi; correct one of the two',
    explain: () => {
      const larger = claim('data', '30Gi', { spec: { volumeName: 'pv-data' } });
      const free = volumeOf(owned, 'b', { spec: { claimRef: undefined }, status: { phase: 'Available' } });
      return ofClaim(larger, { persistentVolumes: [free] });
    },
  },
  {
    code: 'VolumeOfOtherClaim',
    sentence:
      'claim data waits: it cannot have PersistentVolume pv-data: it belongs to claim prod/data, which was deleted; give it to this claim with kubectl moorage reattach',
    explain: () => {
      const again = claim('data', '20Gi', { metadata: { uid: 'uid-new' }, spec: { volumeName: 'pv-data' } });
      return ofClaim(again, { persistentVolumes: [released()] });
    },
  },
  {
    code: 'ClaimLost',
    sentence:
      "claim data waits: its PersistentVolume pv-data was deleted while the claim used it; restore the PersistentVolume with a claimRef that has this claim's uid",
    explain: () => ofClaim({ ...owned, status: { phase: 'Lost' } }),
  },
  {
    code: 'QuotaExceeded',
    sentence:
      'pod db-0 waits: it or its claim cannot be created: exceeded quota: storage, requested: requests.storage=20Gi, used: requests.storage=90Gi, limited: requests.storage=100Gi; raise the quota, or see which claims it counts',
    explain: () =>
      ofSet('db-0', {
        events: [
          event(
            set,
            'FailedCreate',
            'create Claim data-db-0 for Pod db-0 in StatefulSet db failed error: persistentvolumeclaims "data-db-0" is forbidden: exceeded quota: storage, requested: requests.storage=20Gi, used: requests.storage=90Gi, limited: requests.storage=100Gi',
          ),
        ],
      }),
  },
  {
    code: 'ProvisionerSilent',
    sentence:
      "claim data waits: the provisioner topolvm.io does not act on it; see whether the pods of Moorage's controller run, and what their container csi-provisioner logs",
    explain: () =>
      ofClaim(selected, {
        events: [event(selected, 'ExternalProvisioning', 'Waiting for a volume to be created', { deprecatedCount: 5 })],
      }),
  },
  {
    code: 'BeingCreated',
    sentence: 'claim data waits: its volume is being created on node b',
    explain: () => ofClaim(selected, { logicalVolumes: [logicalVolume(selected, 'b')] }),
  },
  {
    code: 'BeingCopied',
    sentence: 'claim data waits: its data is being copied on node b',
    explain: () => ofClaim(selected, { logicalVolumes: [logicalVolume(selected, 'b', { spec: { source: 'pvc-1' } })] }),
  },
  {
    code: 'NoRoomOnNode',
    sentence:
      'claim data waits: device class "ssd" has 12 GiB free, 20 GiB requested; free space, add a disk, or lower spare-gb',
    explain: () =>
      ofClaim(selected, {
        events: [
          provisioningFailed(
            'rpc error: code = ResourceExhausted desc = device class "ssd" has 12 GiB free, 20 GiB requested; free space, add a disk, or lower spare-gb',
          ),
        ],
      }),
  },
  {
    code: 'RequestRefused',
    sentence:
      'claim data waits: it is refused: unknown name "topolvm.io/device" in parameters; did you mean topolvm.io/device-class?',
    explain: () =>
      ofClaim(selected, {
        events: [
          provisioningFailed(
            'rpc error: code = InvalidArgument desc = unknown name "topolvm.io/device" in parameters; did you mean topolvm.io/device-class?',
          ),
        ],
      }),
  },
  {
    code: 'NodeSilent',
    sentence:
      'claim data waits: node b does not answer; start the node or its agent: the volume is created when it answers',
    explain: () =>
      ofClaim(selected, {
        logicalVolumes: [logicalVolume(selected, 'b')],
        events: [provisioningFailed('rpc error: code = DeadlineExceeded desc = context deadline exceeded')],
      }),
  },
  {
    code: 'DriverMissing',
    sentence:
      'claim data waits: Moorage does not run on node b, which the scheduler has selected; start its agent there, or let the scheduler choose again',
    explain: () =>
      ofClaim(selected, {
        events: [provisioningFailed('error generating accessibility requirements: no topology key found on CSINode b')],
      }),
  },
  {
    code: 'TopologyUnusable',
    sentence:
      'claim data waits: StorageClass fast cannot work: allowedTopologies has the key topology.kubernetes.io/zone, with which no volume could ever be created; list names of nodes under topology.topolvm.io/node, or leave it out and use the nodeSelector of the pods',
    explain: () => {
      const matchLabelExpressions = [{ key: 'topology.kubernetes.io/zone', values: ['eu-1'] }];
      return ofClaim(data, {
        storageClasses: [storageClass('fast', { allowedTopologies: [{ matchLabelExpressions }] })],
      });
    },
  },
  {
    code: 'ZoneParameter',
    sentence:
      'claim data waits: StorageClass fast has the parameter zone, which is not allowed with WaitForFirstConsumer; remove it, and set nodeSelector topology.kubernetes.io/zone in the pods',
    explain: () =>
      ofClaim(selected, {
        events: [
          event(
            selected,
            'ProvisioningFailed',
            'Failed to provision volume with StorageClass "fast": zone[s] cannot be specified in StorageClass if VolumeBindingMode is set to WaitForFirstConsumer. Please specify allowedTopologies in StorageClass for constraining zones',
          ),
        ],
      }),
  },
  {
    code: 'SourceNotReady',
    sentence:
      'claim data waits: its source, VolumeSnapshot before, cannot be copied: snapshot before is not Ready; the copy begins when the source is ready',
    explain: () => {
      const subject = copy('VolumeSnapshot', 'before', selected);
      const note =
        'error getting handle for DataSource Type VolumeSnapshot by Name before: snapshot before is not Ready';
      return ofClaim(subject, { events: [provisioningFailed(note)] });
    },
  },
  {
    code: 'SourceElsewhere',
    sentence:
      'claim data waits: its source, PersistentVolumeClaim old, is on node a, and a copy is on the node of its source; let its pod run on a, or create the claim again with the annotation moorage.dev/cross-node: allow',
    explain: () => {
      const note =
        'rpc error: code = ResourceExhausted desc = volume x is on node a, so its copy cannot be on b; run its pod on a';
      return ofClaim(copy('PersistentVolumeClaim', 'old', selected), { events: [provisioningFailed(note)] });
    },
  },
];

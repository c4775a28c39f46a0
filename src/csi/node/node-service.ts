import type { MessageInitShape } from '@bufbuild/protobuf';
import { InvalidInput } from '../../base/errors.ts';
import { VolumeKeys } from '../../filesystem/volume-keys.ts';
import {
  type Node,
  NodeServiceCapability_RPC_Type as RpcType,
  VolumeUsage_Unit as Unit,
  type VolumeCapability,
  type VolumeUsageSchema,
} from '../../rpc/gen/csi/v1/csi_pb.ts';
import type { Implementation } from '../../rpc/server.ts';
import { topologyOf } from '../controller/placement.ts';
import { optionalPath, required, requiredPath } from '../required.ts';
import {
  ephemeralVolume,
  filesystemSettings,
  hasFlag,
  isEncryptionRequested,
  isExclusive,
  isForReading,
  type VolumeContext,
  volumeUse,
  withoutClassSettings,
} from '../volume-use.ts';
import type { NodeVolumes, PreparedUse, Usage } from './node-volumes.ts';

const capabilities = [
  RpcType.STAGE_UNSTAGE_VOLUME,
  RpcType.GET_VOLUME_STATS,
  RpcType.EXPAND_VOLUME,
  RpcType.VOLUME_CONDITION,
  RpcType.SINGLE_NODE_MULTI_WRITER,
];

export function nodeService({
  nodeName,
  volumes,
}: {
  readonly nodeName: string;
  readonly volumes: NodeVolumes;
}): Implementation<typeof Node> {
  return {
    async nodeStageVolume(request, { signal, log }) {
      const volumeId = required(request.volumeId, 'volume_id');
      const stagingPath = requiredPath(request.stagingTargetPath, 'staging_target_path');
      const use = preparedUse(required(request.volumeCapability, 'volume_capability'), request.volumeContext);
      using keys = VolumeKeys.in(request.secrets, 'utf8');
      const encryption = { isRequested: isEncryptionRequested(request.volumeContext), keys };
      await volumes.stage({ volumeId, stagingPath, use, encryption }, signal);
      log.info({ volume: volumeId, path: stagingPath }, 'volume staged');
      return {};
    },

    async nodeUnstageVolume(request, { signal, log }) {
      const volumeId = required(request.volumeId, 'volume_id');
      const stagingPath = requiredPath(request.stagingTargetPath, 'staging_target_path');
      await volumes.unstage(volumeId, stagingPath, signal);
      log.info({ volume: volumeId, path: stagingPath }, 'volume unstaged');
      return {};
    },

    async nodePublishVolume(request, { signal, log }) {
      const { volumeContext } = request;
      const volumeId = required(request.volumeId, 'volume_id');
      const targetPath = requiredPath(request.targetPath, 'target_path');
      const capability = required(request.volumeCapability, 'volume_capability');
      const ephemeral = ephemeralVolume(volumeContext);
      const context = ephemeral ? withoutClassSettings(volumeContext) : volumeContext;
      const use = preparedUse(capability, context);
      const readOnly = request.readonly || isForReading(capability);
      if (readOnly && use.kind === 'filesystem' && hasFlag(use.mountFlags, 'rw')) {
        throw new InvalidInput(
          'volume_capability.mount.mount_flags contain rw, but the request is read-only; remove one of them',
        );
      }
      using keys = VolumeKeys.in(request.secrets, 'utf8');
      await volumes.publish(
        {
          volumeId,
          targetPath,
          stagingPath: optionalPath(request.stagingTargetPath, 'staging_target_path'),
          readOnly,
          exclusive: isExclusive(capability),
          use,
          encryption: { isRequested: isEncryptionRequested(context), keys },
          ephemeral,
        },
        signal,
      );
      log.info({ volume: volumeId, target: targetPath }, 'volume published');
      return {};
    },

    async nodeUnpublishVolume(request, { signal, log }) {
      const volumeId = required(request.volumeId, 'volume_id');
      const targetPath = requiredPath(request.targetPath, 'target_path');
      await volumes.unpublish(volumeId, targetPath, signal);
      log.info({ volume: volumeId, target: targetPath }, 'volume unpublished');
      return {};
    },

    async nodeGetVolumeStats(request, { signal }) {
      const volumeId = required(request.volumeId, 'volume_id');
      const volumePath = required(request.volumePath, 'volume_path');
      const { usage, condition } = await volumes.stats(volumeId, volumePath, signal);
      const { isAbnormal: abnormal, message } = condition;
      return { usage: usage.map(usageMessage), volumeCondition: { abnormal, message } };
    },

    async nodeExpandVolume(request, { signal, log }) {
      const volumeId = required(request.volumeId, 'volume_id');
      const volumePath = required(request.volumePath, 'volume_path');
      const accessType = request.volumeCapability?.accessType.case;
      using keys = VolumeKeys.in(request.secrets, 'utf8');
      const capacityBytes = await volumes.grow(
        {
          volumeId,
          volumePath,
          stagingPath: optionalPath(request.stagingTargetPath, 'staging_target_path'),
          isBlock: accessType && accessType === 'block',
          keys,
        },
        signal,
      );
      log.info({ volume: volumeId, sizeBytes: String(capacityBytes) }, 'volume expanded');
      return { capacityBytes };
    },

    nodeGetCapabilities: async () => ({
      capabilities: capabilities.map((type) => ({ type: { case: 'rpc' as const, value: { type } } })),
    }),

    nodeGetInfo: async () => ({ nodeId: nodeName, accessibleTopology: topologyOf(nodeName) }),
  };
}

function preparedUse(capability: VolumeCapability, context: VolumeContext): PreparedUse {
  const use = volumeUse(capability, 'volume_capability');
  return use.kind === 'block' ? use : { ...use, settings: filesystemSettings(context, use.filesystem) };
}

function usageMessage({ unit, total, filling }: Usage): MessageInitShape<typeof VolumeUsageSchema> {
  return { unit: unit === 'bytes' ? Unit.BYTES : Unit.INODES, total, ...filling };
}

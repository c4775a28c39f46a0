import { InvalidInput } from '../base/errors.ts';
import { publishContext } from '../names.ts';
import type { Node } from '../rpc/gen/csi/v1/csi_pb.ts';
import type { Implementation } from '../rpc/server.ts';
import type { NodeVolumes, PreparedUse } from './node-volumes.ts';
import { required } from './required.ts';
import { topologyOf } from './topology.ts';
import { filesystemSettings, type VolumeContext } from './volume-context.ts';
import { type VolumeUse, volumeUse } from './volume-use.ts';

/**
 * There is no staging: a volume's device is mounted for each pod directly, as TopoLVM does it, so that volumes which
 * TopoLVM has published can be unpublished here.
 */
export function nodeService({
  nodeName,
  volumes,
}: {
  readonly nodeName: string;
  readonly volumes: Pick<NodeVolumes, 'publish' | 'unpublish'>;
}): Implementation<typeof Node> {
  return {
    async nodePublishVolume(request, { signal, log }) {
      const volumeId = required(request.volumeId, 'volume_id');
      const targetPath = required(request.targetPath, 'target_path');
      const use = volumeUse(required(request.volumeCapability, 'volume_capability'), 'volume_capability');
      if (request.readonly && use.kind === 'filesystem' && use.mountFlags.includes('rw')) {
        throw new InvalidInput(
          'volume_capability.mount.mount_flags hold rw but readonly is set; leave one of them out',
        );
      }
      const { readonly: readOnly, volumeContext } = request;
      const publication = { volumeId, targetPath, stagingPath: undefined, readOnly, exclusive: false } as const;
      const podUid = volumeContext[publishContext.podUid];
      const preparedUse = prepared(use, volumeContext);
      await volumes.publish({ ...publication, use: preparedUse, ephemeral: undefined, podUid }, signal);
      log.info({ volume: volumeId, target: targetPath }, 'volume published');
      return {};
    },

    async nodeUnpublishVolume(request, { signal, log }) {
      const volumeId = required(request.volumeId, 'volume_id');
      const targetPath = required(request.targetPath, 'target_path');
      await volumes.unpublish(volumeId, targetPath, signal);
      log.info({ volume: volumeId, target: targetPath }, 'volume unpublished');
      return {};
    },

    nodeGetCapabilities: async () => ({ capabilities: [] }),

    nodeGetInfo: async () => ({ nodeId: nodeName, accessibleTopology: topologyOf(nodeName) }),
  };
}

function prepared(use: VolumeUse, context: VolumeContext): PreparedUse {
  return use.kind === 'block' ? use : { ...use, settings: filesystemSettings(context, use.filesystem) };
}

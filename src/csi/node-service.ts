import { InvalidInput } from '../base/errors.ts';
import type { Node } from '../rpc/gen/csi/v1/csi_pb.ts';
import type { Implementation } from '../rpc/server.ts';
import type { NodeVolumes } from './node-volumes.ts';
import { required } from './required.ts';
import { topologyOf } from './topology.ts';
import { volumeUse } from './volume-use.ts';

/**
 * There is no staging: a volume's device is mounted for each pod directly, as TopoLVM does it, so that volumes which
 * TopoLVM has published can be unpublished here.
 */
export function nodeService({
  nodeName,
  volumes,
}: {
  readonly nodeName: string;
  readonly volumes: NodeVolumes;
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
      await volumes.publish({ volumeId, targetPath, readOnly: request.readonly, use }, signal);
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

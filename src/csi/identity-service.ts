import { driverName } from '../names.ts';
import { type Identity, PluginCapability_Service_Type as ServiceType } from '../rpc/gen/csi/v1/csi_pb.ts';
import type { Implementation } from '../rpc/server.ts';

/** `ready` says whether the process can serve calls yet: its caches are filled, its pools are open. */
export function identityService({
  version,
  ready,
}: {
  readonly version: string;
  readonly ready: () => boolean;
}): Implementation<typeof Identity> {
  return {
    getPluginInfo: async () => ({ name: driverName, vendorVersion: version }),

    getPluginCapabilities: async () => ({
      capabilities: [ServiceType.CONTROLLER_SERVICE, ServiceType.VOLUME_ACCESSIBILITY_CONSTRAINTS].map((type) => ({
        type: { case: 'service' as const, value: { type } },
      })),
    }),

    probe: async () => ({ ready: ready() }),
  };
}

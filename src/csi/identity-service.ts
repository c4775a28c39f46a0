import { driverName } from '../api/names.ts';
import {
  PluginCapability_VolumeExpansion_Type as Expansion,
  type Identity,
  PluginCapability_Service_Type as Service,
} from '../rpc/gen/csi/v1/csi_pb.ts';
import type { Implementation } from '../rpc/server.ts';

const services = [Service.CONTROLLER_SERVICE, Service.VOLUME_ACCESSIBILITY_CONSTRAINTS];
/** Volumes can be expanded with or without a pod that uses them. */
const expansions = [Expansion.ONLINE, Expansion.OFFLINE];

/** `ready` says whether the process can serve calls: its caches are filled and its pools are open. */
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
      capabilities: [
        ...services.map((type) => ({ type: { case: 'service' as const, value: { type } } })),
        ...expansions.map((type) => ({ type: { case: 'volumeExpansion' as const, value: { type } } })),
      ],
    }),

    probe: async () => ({ ready: ready() }),
  };
}

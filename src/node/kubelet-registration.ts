import { join } from 'node:path';
import { driverName } from '../api/names.ts';
import type { Log } from '../base/log.ts';
import type { Registration } from '../rpc/gen/pluginregistration/v1/registration_pb.ts';
import type { Implementation } from '../rpc/server.ts';

/** The kubelet watches this directory and reads it at start, so it always finds the socket. */
export function registrationSocket(kubeletDir: string): string {
  return join(kubeletDir, 'plugins_registry', `${driverName}-reg.sock`);
}

/** Reports the name and the CSI socket of this driver to the kubelet. */
export function kubeletRegistration(csiSocket: string, log: Log): Implementation<typeof Registration> {
  return {
    getInfo: async () => ({
      type: 'CSIPlugin',
      name: driverName,
      endpoint: csiSocket,
      supportedVersions: ['1.0.0'],
    }),

    async notifyRegistrationStatus({ pluginRegistered, error }) {
      if (pluginRegistered) log.info('registered with the kubelet');
      else log.error({ error }, 'the kubelet rejected the driver and will retry; until then no pod gets its volumes');
      return {};
    },
  };
}

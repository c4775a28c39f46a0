// registrar.ts SOCKET: registers a CSI driver that does not register itself with the kubelet, for as long as this runs.
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { kubeletRegistration, registrationSocket } from '../../src/node/kubelet-registration.ts';
import { Registration } from '../../src/rpc/gen/pluginregistration/v1/registration_pb.ts';
import { RpcServer } from '../../src/rpc/server.ts';

const [, , csiSocket = ''] = process.argv;
const socketPath = registrationSocket('/var/lib/kubelet');
await new RpcServer({ socketPath, clock: systemClock, log: silentLog })
  .add(Registration, kubeletRegistration(csiSocket, silentLog))
  .listen();

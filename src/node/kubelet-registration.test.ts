import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLog } from '../base/testing/silent-log.ts';
import { Registration } from '../rpc/gen/pluginregistration/v1/registration_pb.ts';
import { serving } from '../rpc/testing/serving.ts';
import { kubeletRegistration, registrationSocket } from './kubelet-registration.ts';

test('the kubelet receives the name and the socket of the driver', async (t) => {
  const calls = await serving(t, Registration, kubeletRegistration('/run/csi.sock', silentLog));
  const info = await calls.getInfo({}, { timeoutMs: 120_000 });
  assert.deepEqual(
    [info.type, info.name, info.endpoint, info.supportedVersions],
    ['CSIPlugin', 'topolvm.io', '/run/csi.sock', ['1.0.0']],
  );
  await calls.notifyRegistrationStatus({ pluginRegistered: false, error: 'no' }, { timeoutMs: 120_000 });
});

test('the registration socket is in the directory that the kubelet watches', () => {
  assert.equal(registrationSocket('/var/lib/kubelet'), '/var/lib/kubelet/plugins_registry/topolvm.io-reg.sock');
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  PluginCapability_VolumeExpansion_Type as Expansion,
  Identity,
  PluginCapability_Service_Type as Service,
} from '../rpc/gen/csi/v1/csi_pb.ts';
import { serving } from '../rpc/testing/serving.ts';
import { identityService } from './identity-service.ts';

const timeoutMs = 120_000;

test('the driver reports its name, its readiness and its capabilities', async (t) => {
  let ready = false;
  const calls = await serving(t, Identity, identityService({ version: '1.2.3', ready: () => ready }));
  const { name, vendorVersion } = await calls.getPluginInfo({}, { timeoutMs });
  assert.deepEqual({ name, vendorVersion }, { name: 'topolvm.io', vendorVersion: '1.2.3' });
  assert.equal((await calls.probe({}, { timeoutMs })).ready, false);
  ready = true;
  assert.equal((await calls.probe({}, { timeoutMs })).ready, true);

  const { capabilities } = await calls.getPluginCapabilities({}, { timeoutMs });
  assert.deepEqual(
    capabilities.map(({ type }) => [type.case, type.value?.type]),
    [
      ['service', Service.CONTROLLER_SERVICE],
      ['service', Service.VOLUME_ACCESSIBILITY_CONSTRAINTS],
      ['volumeExpansion', Expansion.ONLINE],
      ['volumeExpansion', Expansion.OFFLINE],
    ],
  );
});

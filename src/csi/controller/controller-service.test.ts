import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ControllerServiceCapability_RPC_Type as RpcType } from '../../rpc/gen/csi/v1/csi_pb.ts';
import { servedController } from '../testing/in-memory-stores.ts';

const timeoutMs = 120_000;
const gibi = 1024n ** 3n;

test('GetCapacity answers for one node, or for all nodes together', async (t) => {
  const { calls } = await servedController(t);
  const room = async (nodeName?: string, deviceClass = '') => {
    const answer = await calls.getCapacity(
      {
        parameters: { 'topolvm.io/device-class': deviceClass },
        ...(nodeName && { accessibleTopology: { segments: { 'topology.topolvm.io/node': nodeName } } }),
      },
      { timeoutMs },
    );
    return [answer.availableCapacity, answer.maximumVolumeSize];
  };
  assert.deepEqual(await room('b'), [30n * gibi, 30n * gibi]);
  assert.deepEqual(await room(), [40n * gibi, 30n * gibi]);
  assert.deepEqual(await room('b', 'fast'), [0n, 0n]);
  assert.deepEqual(await room('unknown'), [0n, 0n]);
  assert.deepEqual(await room('a', 'unknown'), [0n, 0n]);
});

test('the MODIFY_VOLUME capability is declared only if a node can limit IO', async (t) => {
  const declared = async (limitingIo: ReadonlySet<string>) => {
    const { calls } = await servedController(t, limitingIo);
    const { capabilities } = await calls.controllerGetCapabilities({}, { timeoutMs });
    return capabilities.map(({ type }) => (type.case === 'rpc' ? type.value.type : undefined));
  };
  const without = await declared(new Set());
  assert.ok(!without.includes(RpcType.MODIFY_VOLUME));
  assert.deepEqual(await declared(new Set(['a'])), [...without, RpcType.MODIFY_VOLUME]);
});

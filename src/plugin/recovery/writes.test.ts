import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { type LogicalVolume, logicalVolumes } from '../../api/logical-volume.ts';
import { InMemoryApi } from '../../kube/testing/in-memory-api.ts';
import { untilAdopted } from './writes.ts';

test('a node that does not answer within a minute is reported, with what to do', async (t) => {
  const api = new InMemoryApi<LogicalVolume>();
  await api.create(logicalVolumes, { metadata: { name: 'pvc-1' }, spec: { name: 'a', nodeName: 'a', size: '1Gi' } });
  const minute = new AbortController();
  const timeout = t.mock.method(AbortSignal, 'timeout', () => minute.signal);
  const waiting = untilAdopted(api.client, 'pvc-1', new AbortController().signal);
  await setImmediate();
  assert.deepEqual(timeout.mock.calls[0]?.arguments, [60_000]);
  minute.abort();
  await assert.rejects(waiting, {
    name: 'NotAdopted',
    message: /within a minute for LogicalVolume pvc-1; check its agent, then run the command again$/,
  });
});

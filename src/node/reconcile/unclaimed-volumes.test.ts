import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { type LogicalVolume, logicalVolumes } from '../../api/logical-volume.ts';
import { systemClock } from '../../base/clock.ts';
import { silentLog } from '../../base/testing/silent-log.ts';
import { Workers } from '../../base/work.ts';
import { Informer } from '../../kube/informer.ts';
import { InMemoryApi } from '../../kube/testing/in-memory-api.ts';
import { unclaimedVolumes } from './unclaimed-volumes.ts';

const asked = { 'moorage.dev/unclaimed': '2026-01-01T00:00:00Z' };

async function answering(t: TestContext, isUnused: boolean, annotations: Readonly<Record<string, string>>) {
  const api = new InMemoryApi<LogicalVolume>();
  const volumes = new Informer({ client: api.client, resource: logicalVolumes, clock: systemClock, log: silentLog });
  const looks: string[] = [];
  const published = {
    retireIfUnused: async (id: string) => {
      looks.push(id);
      return isUnused;
    },
  };
  const work = unclaimedVolumes({ client: api.client, volumes, published, log: silentLog });
  const workers = new Workers([work], { clock: systemClock, log: silentLog, random: () => 0 });
  await api.create(logicalVolumes, {
    metadata: { name: 'pvc-1', annotations },
    spec: { name: 'pvc-1', nodeName: 'a', size: '1Gi' },
    status: { volumeID: 'lv-1' },
  });
  workers.start();
  volumes.start();
  t.after(async () => {
    await workers.stop(0);
    await volumes.stop();
  });
  for (let turn = 0; turn < 20; turn++) await setImmediate();
  const answer = (await api.get(logicalVolumes, 'pvc-1'))?.metadata.annotations?.['moorage.dev/never-used'];
  return { looks, answer };
}

for (const [what, isUnused, annotations, expected] of [
  ['the controller does not ask about', true, {}, { looks: [], answer: undefined }],
  ['was never used', true, asked, { looks: ['lv-1'], answer: 'true' }],
  ['may have been used', false, asked, { looks: ['lv-1'], answer: undefined }],
  ['has an answer', true, { ...asked, 'moorage.dev/never-used': 'true' }, { looks: [], answer: 'true' }],
] as const) {
  test(`for a volume that ${what}, the answer is ${expected.answer ?? 'none'}`, async (t) => {
    assert.deepEqual(await answering(t, isUnused, annotations), expected);
  });
}

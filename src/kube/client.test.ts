import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type Answer, configMap, json, refusal, ScriptedServer } from '../../test/kube/scripted-server.ts';
import { systemClock } from '../base/clock.ts';
import { silentLog } from '../base/testing/silent-log.ts';
import { KubeClient } from './client.ts';
import { configMaps, nodes } from './resource.ts';

async function clientOf(t: TestContext, ...answers: [Answer, ...Answer[]]) {
  const server = await ScriptedServer.start(t, ...answers);
  const client = new KubeClient({ connection: server.connection, clock: systemClock, log: silentLog });
  t.after(() => client.close());
  return { server, client };
}

const page = (name: string, next?: string) =>
  json({ metadata: { resourceVersion: '9', continue: next }, items: [configMap(name, 1)] });

test('a list whose continue token expires starts over as one page', async (t) => {
  const { server, client } = await clientOf(t, page('a', 'more'), refusal(410, 'Expired'), page('whole'));
  const { items } = await client.list(configMaps, { pageSize: 1, project: (object) => object.metadata.name });
  assert.deepEqual(items, ['whole']);
  assert.deepEqual(
    [0, 1, 2].map((number) => server.query(number)),
    [{ limit: '1' }, { limit: '1', continue: 'more' }, {}],
  );
});

test('a request for one object never becomes a request for all of them', async (t) => {
  const { server, client } = await clientOf(t, json({}));
  await assert.rejects(client.delete(nodes, ''), { code: 'InvalidArgument' });
  await assert.rejects(client.delete(configMaps, 'a'), { code: 'InvalidArgument' });
  await assert.rejects(client.create(configMaps, { metadata: { name: 'a' } }), { code: 'InvalidArgument' });
  assert.deepEqual(server.requests, []);
});

test('a name cannot change the path', async (t) => {
  const { server, client } = await clientOf(t, json({}));
  await client.get(nodes, '../pods?x=y');
  assert.deepEqual(server.requests, ['GET /api/v1/nodes/..%2Fpods%3Fx%3Dy']);
});

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { nobodyListens } from '../../src/rpc/socket-answers.ts';
import { AgentDirectories, type AgentProcess } from './agent-process.ts';
import { whyNotRoot } from './scratch.ts';

const native = { skip: whyNotRoot, timeout: 300_000 };
const serving = /^serving .*csi\.sock$/;
const standingBy = /waiting as standby/;

const hasServed = (agent: AgentProcess) => agent.log.some(({ msg }) => msg === 'serving');

test('an agent started beside another one is a standby, and takes over when that one ends', native, async (t) => {
  const place = await AgentDirectories.create(t);
  const first = await place.start(t);
  await first.said(serving);
  const second = await place.start(t);
  await second.said(standingBy);
  assert.ok(!hasServed(second));

  assert.equal(await first.end('SIGTERM'), 0, first.words);
  await second.said(serving);
  assert.ok((await first.said(/^stopped/)) <= (await second.said(/^taking over/)), `${first.words}\n${second.words}`);
  assert.equal(await second.end('SIGTERM'), 0, second.words);
});

test('a standby takes over from a killed agent, which is the standby after its restart', native, async (t) => {
  const place = await AgentDirectories.create(t);
  const first = await place.start(t);
  await first.said(serving);
  const second = await place.start(t);
  await second.said(standingBy);
  await first.end('SIGKILL');
  await second.said(serving);
  const again = await place.start(t);
  await again.said(standingBy);
  assert.ok(!hasServed(again));
});

test('a standby that is told to stop just ends', native, async (t) => {
  const place = await AgentDirectories.create(t);
  const first = await place.start(t);
  await first.said(serving);
  const second = await place.start(t);
  await second.said(standingBy);
  assert.equal(await second.end('SIGTERM'), 0, second.words);
  assert.ok(!hasServed(second));
  assert.equal(await nobodyListens(place.csiSocket), false, 'the first agent serves');
});

test('a new agent with an invalid configuration fails at once, and the old one keeps serving', native, async (t) => {
  const place = await AgentDirectories.create(t);
  const first = await place.start(t);
  await first.said(serving);
  const second = await place.start(t, [{ name: 'files', type: 'tape' }]);
  assert.equal(await second.end(), 1, second.words);
  assert.match(second.words, /^moorage: .*type/m);
  assert.doesNotMatch(second.words, standingBy, 'it never became a standby');
  assert.equal(await nobodyListens(place.csiSocket), false, 'the first agent serves');
});

test(
  'an agent that cannot reach the API server serves, is alive, and reports that it is not ready',
  native,
  async (t) => {
    const place = await AgentDirectories.create(t);
    const address = `127.0.0.1:${await freePort()}`;
    const agent = await place.start(t, undefined, address);
    await agent.said(serving);
    const get = async (path: string) => {
      const response = await fetch(`http://${address}${path}`);
      return { status: response.status, text: await response.text() };
    };
    assert.deepEqual(await get('/healthz'), { status: 200, text: 'ok\n' });
    const { status, text } = await get('/readyz');
    assert.equal(status, 503);
    assert.match(
      text,
      /^watch logicalvolumes: nothing has been read [^;]*; watch node: nothing has been read [^;]*\n$/,
    );
  },
);

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { nobodyListens } from '../../src/rpc/socket-answers.ts';
import { AgentDirectories, type AgentProcess } from './agent-process.ts';
import { whyNotRoot } from './scratch.ts';

const native = { skip: whyNotRoot, timeout: 300_000 };
const serving = /^serving .*csi\.sock$/;
const servingEngine = /^serving .*lvmd\.sock$/;
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

test('an agent for static volumes only takes turns too, and serves no CSI', native, async (t) => {
  const place = await AgentDirectories.create(t);
  const flags = ['--csi=false', '--local-pv', '--config=', `--local-pv-mount-base=${place.directory}/pv`];
  const address = await freeAddress();
  const first = await place.start(t, undefined, address, flags);
  await first.said(servingEngine);
  assert.ok(await nobodyListens(place.csiSocket));
  assert.deepEqual(await readdir(join(place.directory, 'kubelet')), [], 'it does not register with the kubelet');
  const unready = await (await fetch(`http://${address}/readyz`)).text();
  assert.match(unready, /^watch persistentvolumes: nothing has been read [^;]*\n$/);

  const second = await place.start(t, undefined, undefined, flags);
  await second.said(standingBy);
  assert.equal(await first.end('SIGTERM'), 0, first.words);
  await second.said(servingEngine);
  assert.equal(await second.end('SIGTERM'), 0, second.words);
});

test('an agent without any job refuses to start', native, async (t) => {
  const place = await AgentDirectories.create(t);
  const agent = await place.start(t, undefined, undefined, ['--csi=false']);
  assert.equal(await agent.end(), 2);
  assert.match(agent.words, /there is nothing to do for this agent; pass --csi or --local-pv/);
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
    const address = await freeAddress();
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

/** Nobody else connects from this host, so its port stays free. */
async function freeAddress(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.2');
  await once(server, 'listening');
  const { address, port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return `${address}:${port}`;
}

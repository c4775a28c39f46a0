import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import http2 from 'node:http2';
import net from 'node:net';
import { type TestContext, test } from 'node:test';
import { RpcClient } from '../../src/rpc/client.ts';
import { Controller, VolumeCapability_AccessMode_Mode as Mode } from '../../src/rpc/gen/csi/v1/csi_pb.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { whyNotRoot } from '../native/scratch.ts';
import { StandaloneProcess } from './standalone-process.ts';

const native = { skip: whyNotRoot };
const timeoutMs = 120_000;
const mebi = 1024 ** 2;

/** Sends bytes as the body of a call, and returns its status; undefined if the server only closes the connection. */
async function status(t: TestContext, socket: string, body: Buffer, authority?: string): Promise<string | undefined> {
  const session = http2.connect('http://localhost', { createConnection: () => net.connect(socket) });
  t.after(() => session.destroy());
  const request = session.request({
    ':method': 'POST',
    ':path': '/csi.v1.Identity/Probe',
    'content-type': 'application/grpc',
    te: 'trailers',
    ...(authority !== undefined && { ':authority': authority }),
  });
  const answer = Promise.withResolvers<string | undefined>();
  const take = (headers: http2.IncomingHttpHeaders) => {
    if (headers['grpc-status']) answer.resolve(String(headers['grpc-status']));
  };
  request.on('response', take);
  request.on('trailers', take);
  request.on('error', () => answer.resolve(undefined));
  request.on('close', () => answer.resolve(undefined));
  request.resume().end(body);
  return answer.promise;
}

/** The gRPC prefix of a message of this length. */
function prefix(bytes: number): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(bytes, 1);
  return head;
}

test('the server accepts any :authority that grpc-go clients send', native, async (t) => {
  const { socket } = await StandaloneProcess.onFiles(t);
  const authorities = [
    encodeURIComponent(socket), // sent by the kubelet and other clients with their own dialer
    encodeURIComponent(`unix:${socket}`),
    'localhost',
    '127.0.0.1:0',
    '%zz', // invalid, but accepted too
  ];
  for (const authority of authorities) assert.equal(await status(t, socket, prefix(0), authority), '0', authority);
});

test('messages that are too long are rejected, and the next one is answered', native, async (t) => {
  const { socket } = await StandaloneProcess.onFiles(t);
  const tooLong = Buffer.concat([prefix(8 * mebi), Buffer.alloc(8 * mebi)]);
  const bodies = [...Array.from({ length: 16 }, () => tooLong), prefix(2 ** 32 - 1)];
  const answers = await Promise.all(bodies.map((body) => status(t, socket, body)));
  assert.deepEqual(new Set(answers), new Set(['8']));
  assert.equal(await status(t, socket, prefix(0)), '0');
});

test('a retry finds everything that cancelled or expired calls left behind', native, async (t) => {
  const { socket, pid } = await StandaloneProcess.onFiles(t);
  using client = new RpcClient(Controller, socket);
  const controller = client.methods;
  const free = async () => (await controller.getCapacity({}, { timeoutMs })).availableCapacity;
  const openFiles = async () => (await readdir(`/proc/${pid}/fd`)).length;
  const [freeBefore, filesBefore] = [await free(), await openFiles()];

  const requests = Array.from({ length: 24 }, (_, index) => ({
    name: `volume-${index}`,
    capacityRange: { requiredBytes: 8n * 1024n ** 2n },
    volumeCapabilities: [
      { accessMode: { mode: Mode.SINGLE_NODE_WRITER }, accessType: { case: 'block' as const, value: {} } },
    ],
  }));
  // Each at another stage: before it is received, while it is queued, and while it runs.
  const interrupted = await Promise.allSettled(
    requests.map((request, index) =>
      index % 2
        ? controller.createVolume(request, { timeoutMs: index * 10 })
        : controller.createVolume(request, { timeoutMs, signal: AbortSignal.timeout(index * 10) }),
    ),
  );
  assert.ok(
    interrupted.some(({ status }) => status === 'rejected'),
    'some calls expired',
  );

  const created = await Promise.all(requests.map((request) => controller.createVolume(request, { timeoutMs })));
  const ids = created.map(({ volume }) => volume?.volumeId ?? '');
  const { entries } = await controller.listVolumes({}, { timeoutMs });
  assert.deepEqual(new Set(entries.map(({ volume }) => volume?.volumeId)), new Set(ids));
  assert.equal(entries.length, ids.length);

  await Promise.allSettled(ids.map((volumeId) => controller.deleteVolume({ volumeId }, { timeoutMs: 20 })));
  for (const volumeId of ids) await controller.deleteVolume({ volumeId }, { timeoutMs });
  assert.ok(
    freeBefore - (await free()) < BigInt(mebi),
    'all space is free again, except for what the directory itself takes',
  );
  await eventually('it has no more open files or children than before', async () => {
    const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8');
    return (await openFiles()) <= filesBefore && children === '';
  });
});

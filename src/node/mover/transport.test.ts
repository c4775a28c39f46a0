import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { closeSync, openSync, writeSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer as createTcpServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { before, type TestContext, test } from 'node:test';
import { connect as connectTls, createServer } from 'node:tls';
import { BlockMap } from '../../engine/changes/block-map.ts';
import { KnownHashes } from '../../engine/changes/known-hashes.ts';
import type { Position } from '../../engine/changes/position.ts';
import type { Certificate } from '../../http/self-signed.ts';
import { Connection } from './connection.ts';
import { decodeHeader, encodeHeader } from './frames.ts';
import { newMoveKey } from './move-key.ts';
import { type RoundOfMove, SourceEnd } from './source-end.ts';
import { type PullRequest, pull } from './target-end.ts';

const mebibyte = 1024 ** 2;
const size = 8 * mebibyte;
const { signal } = new AbortController();

let [source, target, stranger]: Certificate[] = [];
before(async () => {
  [source, target, stranger] = await Promise.all([1, 2, 3].map(() => newMoveKey(Date.now())));
});

const must = <T>(value: T | undefined): T => {
  assert.ok(value !== undefined);
  return value;
};

/** Both ends of a move in this process, with files as their devices. */
class MoveOfTest {
  readonly from: string;
  readonly to: string;
  readonly moveUid = 'b1f6c2d4-0000-4000-8000-000000000001';
  position: Position = {};
  reached: number[] = [];
  round: Partial<RoundOfMove> & { readonly blocks: BlockMap };
  readonly notes: string[] = [];
  readonly #source: SourceEnd;
  port = 0;

  private constructor(directory: string) {
    this.from = join(directory, 'from');
    this.to = join(directory, 'to');
    this.round = { blocks: BlockMap.all(size, 'data') };
    this.#source = new SourceEnd({
      round: async () => {
        const { blocks, ...round } = this.round;
        const blockStates = structuredClone(blocks.states);
        return { checkpoint: 'one', devicePath: this.from, sizeBytes: size, tags: ['a'], ...round, blockStates };
      },
      note: async ({ message }) => void this.notes.push(message),
    });
  }

  static async begin(t: TestContext, content: Buffer): Promise<MoveOfTest> {
    const directory = await mkdtemp(join(tmpdir(), 'move-'));
    const move = new MoveOfTest(directory);
    await writeFile(move.from, content);
    await writeFile(move.to, Buffer.alloc(content.length, 'x'));
    await move.offer();
    t.after(async () => {
      await move.#source.withdraw(move);
      await rm(directory, { recursive: true });
    });
    return move;
  }

  async offer(peerCertificate = must(target).cert, moveUid = this.moveUid): Promise<void> {
    ({ port: this.port } = await this.#source.offer({ moveUid, port: 0, own: must(source), peerCertificate }));
  }

  async withdraw(moveUid = this.moveUid): Promise<void> {
    await this.#source.withdraw({ moveUid });
  }

  async pull(settings: Partial<PullRequest> = {}, options: { flushMs?: number; silenceMs?: number } = {}) {
    const request: PullRequest = {
      ...{ pullId: 1, moveUid: this.moveUid, host: '127.0.0.1', port: this.port, kind: 'next' },
      ...{ own: must(target), peerCertificate: must(source).cert, position: this.position },
      device: { path: this.to, sizeBytes: size, isSparse: true, isNewZeroed: false },
      ...settings,
    };
    const agent = {
      begin: async ({ position }: { readonly position: Position }) => {
        this.position = position;
      },
      reached: async ({ offset }: { readonly offset: number }) => {
        const { partial } = this.position;
        if (partial) this.position = { ...this.position, partial: { ...partial, offset } };
        this.reached.push(offset);
      },
    };
    return pull(request, agent, signal, options);
  }

  async isCopied(): Promise<boolean> {
    return (await readFile(this.from)).equals(await readFile(this.to));
  }
}

/** Random data with zeros in the middle. */
function someContent(): Buffer {
  const content = randomBytes(size);
  content.fill(0, 2 * mebibyte, 5 * mebibyte);
  return content;
}

test('a round is copied, zeros are not sent, and both ends have the same digest', async (t) => {
  const move = await MoveOfTest.begin(t, someContent());
  const result = await move.pull();
  assert.ok(await move.isCopied());
  assert.deepEqual([result.sentBytes, result.changedBytes], [5 * mebibyte, size]);
  assert.deepEqual(move.position, { partial: { checkpoint: 'one', offset: size, isFirst: true } });
  const again = await move.pull({ position: { complete: 'before' } });
  assert.equal(again.sha256, result.sha256);
});

test('only what changed is copied, and what is discarded becomes zero', async (t) => {
  const content = someContent();
  const move = await MoveOfTest.begin(t, content);
  await move.pull();
  content.write('changed', 6 * mebibyte);
  content.fill(0, 0, 65_536);
  await writeFile(move.from, content);
  const blocks = new BlockMap(size);
  blocks.mark('data', 6 * mebibyte, 1);
  blocks.mark('zero', 0, 65_536);
  move.round = { checkpoint: 'two', base: 'one', blocks };
  move.position = { complete: 'one' };
  const { sentBytes, changedBytes } = await move.pull({ kind: 'last' });
  assert.deepEqual([sentBytes, changedBytes], [65_536, 2 * 65_536]);
  assert.ok(await move.isCopied());
  assert.deepEqual(move.position.complete, 'one');
});

test('zeros are skipped only in the first round of a target that reads as zeros', async (t) => {
  const move = await MoveOfTest.begin(t, someContent());
  const device = { path: move.to, sizeBytes: size, isSparse: true, isNewZeroed: true };
  await move.pull({ device });
  assert.equal((await readFile(move.to)).toString('latin1', 3 * mebibyte, 3 * mebibyte + 4), 'xxxx');
  for (const position of [
    { partial: { checkpoint: 'one', offset: 0, isFirst: false } },
    { partial: { checkpoint: 'other', offset: 0, isFirst: true } },
    { complete: 'other' },
  ]) {
    await writeFile(move.to, Buffer.alloc(size, 'x'));
    await move.pull({ device, position });
    assert.ok(await move.isCopied(), JSON.stringify(position));
  }
});

test('a round goes on where its target was, if it is still the same', async (t) => {
  const move = await MoveOfTest.begin(t, randomBytes(size));
  const partial = { checkpoint: 'one', offset: 6 * mebibyte, isFirst: true };
  assert.equal((await move.pull({ position: { partial } })).sentBytes, 2 * mebibyte);
  const other = { partial: { ...partial, checkpoint: 'other' } };
  assert.equal((await move.pull({ position: other })).sentBytes, size);
  assert.ok(await move.isCopied());
});

test('with hashes only what differs is sent, and what was not confirmed is sent again', async (t) => {
  const content = someContent();
  const move = await MoveOfTest.begin(t, content);
  const hashes = KnownHashes.of(size);
  move.round = { blocks: BlockMap.all(size, 'data'), hashTable: hashes.table };
  assert.equal((await move.pull()).sentBytes, 5 * mebibyte);
  content.write('changed', 7 * mebibyte);
  await writeFile(move.from, content);
  assert.equal((await move.pull({ position: { complete: 'one' } })).sentBytes, mebibyte);
  assert.ok(await move.isCopied());

  content.write('again', 7 * mebibyte);
  await writeFile(move.from, content);
  await receiveAndForget(move);
  assert.equal((await move.pull({ position: { complete: 'one' } })).sentBytes, mebibyte);
  assert.ok(await move.isCopied());
});

/** A target that gets everything, and dies before any of it is on its disk. */
async function receiveAndForget({ port, moveUid }: MoveOfTest): Promise<void> {
  const socket = connectTls({ port, servername: moveUid, ...must(target), rejectUnauthorized: false });
  await new Promise<void>((connected) => socket.once('secureConnect', connected));
  const connection = new Connection(socket, 'source');
  connection.tell({ type: 'pull', kind: 'next', position: { complete: 'one' } });
  for (let isEnd = false; !isEnd; ) {
    const { kind, length } = decodeHeader(await connection.readHeader());
    const body = Buffer.alloc(kind === 'zero' ? 0 : length);
    await connection.read(body);
    isEnd = kind === 'message' && body.toString().includes('"end"');
  }
  await connection.close();
}

test('each end accepts only the certificate of the other end of this move', async (t) => {
  const move = await MoveOfTest.begin(t, someContent());
  const other = must(stranger);
  await assert.rejects(move.pull({ own: other }), { name: 'PeerRefused', code: 'PermissionDenied' });
  await assert.rejects(move.pull({ peerCertificate: other.cert }), { name: 'PeerRefused' });
  await assert.rejects(move.pull({ moveUid: 'b1f6c2d4-0000-4000-8000-000000000002' }), { code: 'Unavailable' });
  await move.offer(other.cert);
  await assert.rejects(move.pull(), { name: 'PeerRefused' });
  assert.deepEqual(move.position, {}, 'nothing was begun');
  await move.offer();
  await move.pull();
  await move.withdraw();
  await assert.rejects(move.pull(), { name: 'PeerLost', code: 'Unavailable' });
});

test('the session of one move does not open another one', async (t) => {
  const [move, other] = [await MoveOfTest.begin(t, someContent()), 'b1f6c2d4-0000-4000-8000-000000000003'];
  await move.offer(must(stranger).cert, other);
  const session = await new Promise<Buffer | undefined>((resolve) => {
    const socket = connectTls({
      port: move.port,
      servername: move.moveUid,
      ...must(target),
      rejectUnauthorized: false,
    });
    socket.once('session', resolve).once('close', () => resolve(undefined));
    const connection = new Connection(socket, 'source');
    connection.tell({ type: 'pull', kind: 'next', position: {} });
  });
  const options = { port: move.port, servername: other, ...must(target), rejectUnauthorized: false };
  const socket = connectTls({ ...options, ...(session && { session }) });
  const connection = new Connection(socket, 'source');
  const { length } = decodeHeader(await connection.readHeader());
  const answer = Buffer.alloc(length);
  await connection.read(answer);
  assert.deepEqual(JSON.parse(answer.toString()), { type: 'refused' });
  assert.ok(!socket.isSessionReused());
  await move.withdraw(other);
});

test('without a certificate nobody is served', async (t) => {
  const move = await MoveOfTest.begin(t, someContent());
  const socket = connect(move.port, '127.0.0.1');
  socket.write('GET / HTTP/1.0\r\n\r\n');
  await new Promise((closed) => socket.once('close', closed));
  assert.match(move.notes.join(), /refused a connection/);
});

/** A source that misbehaves after its handshake. */
async function brokenSource(t: TestContext, act: (connection: Connection) => void): Promise<number> {
  const options = { ...must(source), ca: must(target).cert, requestCert: true, rejectUnauthorized: true };
  const server = createServer(options, (socket) => {
    const connection = new Connection(socket, 'target');
    t.after(() => connection.close());
    connection.tell({ type: 'begin', checkpoint: 'one', fromOffset: 0, sizeBytes: size, changedBytes: size, tags: [] });
    act(connection);
  });
  await new Promise<void>((listening) => server.listen(0, listening));
  t.after(() => server.close());
  return (server.address() as AddressInfo).port;
}

test('a corrupted frame is not written', async (t) => {
  const move = await MoveOfTest.begin(t, someContent());
  const data = randomBytes(65_536);
  const hash = createHash('sha256').update('something else').digest();
  const port = await brokenSource(t, (connection) => {
    connection.send(encodeHeader({ kind: 'data', offset: 0, length: data.length, hash }), data);
  });
  await assert.rejects(move.pull({ port }), { name: 'FrameCorrupted', code: 'Unavailable' });
  assert.deepEqual(await readFile(move.to), Buffer.alloc(size, 'x'));
});

test('a round that lacks a frame is not complete', async (t) => {
  const move = await MoveOfTest.begin(t, someContent());
  const port = await brokenSource(t, (connection) => {
    connection.tell({ type: 'end', sha256: createHash('sha256').update('a frame').digest('hex') });
  });
  await assert.rejects(move.pull({ port }), { name: 'FrameCorrupted' });
});

test('data outside the volume, or out of order, is refused', async (t) => {
  const move = await MoveOfTest.begin(t, someContent());
  const data = randomBytes(4096);
  const hash = createHash('sha256').update(data).digest();
  const at = (offset: number) => encodeHeader({ kind: 'data', offset, length: data.length, hash });
  const outside = await brokenSource(t, (connection) => connection.send(at(size), data));
  await assert.rejects(move.pull({ port: outside }), { name: 'InvalidInput' });
  const backwards = await brokenSource(t, (connection) => {
    for (const offset of [65_536, 0]) connection.send(at(offset), data);
  });
  await assert.rejects(move.pull({ port: backwards }), { name: 'InvalidInput' });
});

test('a source that dies in the middle of a frame, or is silent, is lost', async (t) => {
  const move = await MoveOfTest.begin(t, someContent());
  const header = encodeHeader({ kind: 'data', offset: 0, length: 65_536, hash: Buffer.alloc(32) });
  const dying = await brokenSource(t, (connection) => {
    connection.send(header, Buffer.alloc(100));
    void connection.close();
  });
  await assert.rejects(move.pull({ port: dying }), { name: 'PeerLost', code: 'Unavailable' });
  const silent = await brokenSource(t, (connection) => connection.send(header));
  await assert.rejects(move.pull({ port: silent }, { silenceMs: 50 }), { name: 'PeerLost', message: /silent/ });
});

test('a connection that is cut is repeated from what is on the disk', async (t) => {
  const move = await MoveOfTest.begin(t, randomBytes(size));
  let passed = 0;
  const proxy = createTcpServer((socket) => {
    const through = connect(move.port, '127.0.0.1');
    socket.pipe(through);
    through.on('data', (piece: Buffer) => {
      passed += piece.length;
      if (passed > 4 * mebibyte && passed < 5 * mebibyte) socket.destroy();
      else socket.write(piece);
    });
    for (const end of [socket, through])
      end.on('error', () => undefined).on('close', () => (socket.destroy(), through.destroy()));
  });
  await new Promise<void>((listening) => proxy.listen(0, listening));
  t.after(() => proxy.close());
  const { port } = proxy.address() as AddressInfo;
  await assert.rejects(move.pull({ port }, { flushMs: 1 }), { name: 'PeerLost' });
  const reached = move.reached.at(-1) ?? 0;
  assert.ok(reached > 0 && reached < size, `${reached}`);
  assert.equal((await move.pull()).sentBytes, size - reached);
  assert.ok(await move.isCopied());
});

test('the source tells why it failed', async (t) => {
  const move = await MoveOfTest.begin(t, someContent());
  move.round = { blocks: BlockMap.all(size, 'data'), devicePath: '/nowhere' };
  await assert.rejects(move.pull(), { name: 'SourceFailed', message: /ENOENT.*\/nowhere/ });
});

test('a target that is smaller than its source is not written to', async (t) => {
  const move = await MoveOfTest.begin(t, someContent());
  const device = { path: move.to, sizeBytes: size - 4096, isSparse: true, isNewZeroed: false };
  await assert.rejects(move.pull({ device }), { name: 'TargetTooSmall' });
  assert.deepEqual(move.position, {});
});

test('a disk that returns other data than was written is noticed in the last round', async (t) => {
  const move = await MoveOfTest.begin(t, randomBytes(size));
  const damage = async () => {
    const file = openSync(move.to, 'r+'); // before it is read back, which begins when this returns
    writeSync(file, 'damaged', 3 * mebibyte);
    closeSync(file);
  };
  const agent = { begin: async () => undefined, reached: damage };
  const request = { pullId: 1, moveUid: move.moveUid, host: '127.0.0.1', port: move.port, position: {} };
  const keys = { own: must(target), peerCertificate: must(source).cert };
  const device = { path: move.to, sizeBytes: size, isSparse: true, isNewZeroed: false };
  const last = pull({ ...request, ...keys, kind: 'last', device }, agent, signal);
  await assert.rejects(last, { name: 'CopyDiffers', code: 'Internal' });
});

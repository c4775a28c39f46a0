import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { eventually } from '../../worlds/host/eventually.ts';
import { fork } from '../../worlds/host/processes.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import type { Agent, PullOfTest } from './moving-agent.ts';
import { scratchDirectory, scratchFilesystem, sh, whyNotRoot } from './scratch.ts';

const native = { skip: whyNotRoot };
const mebibyte = 1024 ** 2;
const size = 32 * mebibyte;
const moveUid = 'b1f6c2d4-0000-4000-8000-000000000001';

/** An agent in a process of its own, which can be killed and started again. */
class AgentProcess {
  readonly directory: string;
  #child: ChildProcess | undefined;
  /** Not heard yet. */
  #messages: object[] = [];

  private constructor(directory: string) {
    this.directory = directory;
  }

  static async start(t: TestContext, directory: string): Promise<AgentProcess> {
    const agent = new AgentProcess(directory);
    await agent.start();
    undoAfter(t, () => agent.kill());
    return agent;
  }

  async start(): Promise<void> {
    const child = fork(join(import.meta.dirname, 'moving-agent.ts'), [this.directory], { serialization: 'advanced' });
    this.#child = child;
    const messages: object[] = [];
    this.#messages = messages;
    child.on('message', (message) => messages.push(message as object));
    child.on('exit', () => messages.push({ error: 'Ended' })); // of a call that waits
    await this.#heard('ready');
  }

  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (!child) return;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  }

  async call<Method extends keyof Agent>(
    method: Method,
    ...[argument]: Parameters<Agent[Method]>
  ): Promise<Awaited<ReturnType<Agent[Method]>>> {
    this.#child?.send({ method, argument });
    const answer = (await this.#heard('value', 'error')) as {
      value: Awaited<ReturnType<Agent[Method]>>;
      error?: string;
    };
    if (answer.error) throw Object.assign(new Error(`${method} failed`), { name: answer.error });
    return answer.value;
  }

  /** Data is on the disk of a round that is being pulled. */
  async progress(): Promise<void> {
    await this.#heard('progress');
  }

  /** Several messages may arrive at once. */
  async #heard(...words: readonly string[]): Promise<object> {
    const messages = this.#messages;
    return eventually(`the agent says ${words.join(' or ')}`, async () => {
      const at = messages.findIndex((message) => words.some((word) => word in message));
      return at < 0 ? undefined : messages.splice(at, 1)[0];
    });
  }
}

/** A volume with random data on one agent, and an empty one on another. */
async function twoAgents(t: TestContext) {
  const source = await AgentProcess.start(t, await scratchFilesystem(t, 'xfs'));
  const target = await AgentProcess.start(t, await scratchDirectory(t));
  const device = await source.call('create', { id: 'data', sizeBytes: BigInt(size) });
  await target.call('create', { id: 'copy', sizeBytes: BigInt(size) });
  await sh(`dd if=/dev/urandom of=${device} bs=1M count=24 conv=fsync status=none`);
  const connect = async (): Promise<Omit<PullOfTest, 'kind'>> => {
    const [ours, theirs] = [await source.call('certificate'), await target.call('certificate')];
    const port = await source.call('offer', { moveUid, id: 'data', peerCertificate: theirs });
    return { moveUid, id: 'copy', port, peerCertificate: ours };
  };
  const image = async ({ directory }: AgentProcess, id: string) => readFile(join(directory, `${id}.img`));
  const isCopied = async () => (await image(source, 'data')).equals(await image(target, 'copy'));
  return { source, target, device, connect, isCopied };
}

/** Most of a minute, so it is interrupted in the middle. */
const slowly = { bytesPerSecond: mebibyte / 2 };

test('a volume is copied in rounds between two agents', native, async (t) => {
  const { source, target, device, connect, isCopied } = await twoAgents(t);
  const move = await connect();
  const first = await target.call('pull', { ...move, kind: 'next' });
  assert.deepEqual([first.changedBytes, first.sentBytes], [size, 24 * mebibyte]);
  await sh(`printf changed | dd of=${device} bs=1M seek=30 conv=notrunc,fsync status=none`);
  const second = await target.call('pull', { ...move, kind: 'next' });
  assert.equal(second.sentBytes, 65_536);
  await sh(`printf again | dd of=${device} bs=1M seek=2 conv=notrunc,fsync status=none`);
  const last = await target.call('pull', { ...move, kind: 'last' });
  assert.equal(last.sentBytes, 65_536);
  assert.ok(await isCopied());
  await source.call('endTracking', 'data');
  assert.deepEqual(
    (await readdir(source.directory)).filter((name) => name.includes('checkpoint')),
    [],
  );
});

test('a source that is killed in the middle of a round goes on where its target is', native, async (t) => {
  const { source, target, connect, isCopied } = await twoAgents(t);
  const pulling = target.call('pull', { ...(await connect()), kind: 'next', ...slowly });
  const failed = assert.rejects(pulling, { name: 'PeerLost' });
  await target.progress();
  await source.kill();
  await failed;
  await assert.rejects(target.call('pull', { ...(await offline()), kind: 'next' }), { name: 'PeerLost' });
  await source.start();
  const { sentBytes } = await target.call('pull', { ...(await connect()), kind: 'next' });
  assert.ok(sentBytes < 24 * mebibyte, `${sentBytes}`);
  assert.ok(await isCopied());
});

/** An address where nobody listens. */
async function offline(): Promise<Omit<PullOfTest, 'kind'>> {
  const { newMoveKey } = await import('../../src/node/mover/move-key.ts');
  return { moveUid, id: 'copy', port: 1, peerCertificate: (await newMoveKey(Date.now())).cert };
}

test('a target that is killed in the middle of a round goes on where it was', native, async (t) => {
  const { target, connect, isCopied } = await twoAgents(t);
  const pulling = target.call('pull', { ...(await connect()), kind: 'next', ...slowly });
  pulling.catch(() => undefined); // its process is killed
  await target.progress();
  await target.progress(); // the position of the first is recorded by now
  await target.kill();
  await target.start();
  const { sentBytes } = await target.call('pull', { ...(await connect()), kind: 'next' });
  assert.ok(sentBytes < 24 * mebibyte, `${sentBytes}`);
  assert.ok(await isCopied());
});

test('after a restart an agent has another key, which the other one has to learn first', native, async (t) => {
  const { source, target, connect, isCopied } = await twoAgents(t);
  const before = await connect();
  await source.kill();
  await source.start();
  const { port } = await connect();
  await assert.rejects(target.call('pull', { ...before, port, kind: 'next' }), { name: 'PeerRefused' });
  await target.call('pull', { ...(await connect()), kind: 'next' });
  assert.ok(await isCopied());
});

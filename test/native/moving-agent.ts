/**
 * node test/native/moving-agent.ts DIRECTORY
 *
 * An agent that moves volumes of one file pool, without Kubernetes. It answers messages of its parent process.
 */
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import type { RoundKind } from '../../src/engine/changes/change-tracking.ts';
import { newMoveKey } from '../../src/node/mover/move-key.ts';
import { Mover, type RoundResult } from '../../src/node/mover/mover.ts';
import { openFilePool } from './scratch.ts';

/** What a parent can ask for, and the answers. */
export interface Agent {
  certificate(): Promise<string>;
  create(volume: { readonly id: string; readonly sizeBytes: bigint }): Promise<string>;
  offer(move: { readonly moveUid: string; readonly id: string; readonly peerCertificate: string }): Promise<number>;
  pull(round: PullOfTest): Promise<RoundResult>;
  endTracking(id: string): Promise<void>;
}

export interface PullOfTest {
  readonly moveUid: string;
  readonly id: string;
  readonly port: number;
  readonly peerCertificate: string;
  readonly kind: RoundKind;
  readonly bytesPerSecond?: number;
}

const [, , directory = ''] = process.argv;
const { signal } = new AbortController();
/** Faster than real time, so that the position is recorded each time that data is flushed. */
const clock = { ...systemClock, monotonic: () => systemClock.monotonic() * 1000 };

const pool = await openFilePool(directory);
const mover = new Mover({ port: 0, clock, log: silentLog });
const own = await newMoveKey(Date.now());

const agent: Agent = {
  certificate: async () => own.cert,
  create: async (volume) => (await pool.create({ ...volume, tags: [] }, signal)).devicePath,
  offer: async ({ moveUid, id, peerCertificate }) => {
    const tags = () => pool.get(id)?.tags ?? [];
    return (await mover.offer(moveUid, { tracking: pool.trackChanges(id), tags, own, peerCertificate })).port;
  },
  pull: async ({ id, ...round }) => {
    const onProgress = () => process.send?.({ progress: true });
    return mover.pull({ ...round, host: '127.0.0.1', own, pool, volumeId: id, onProgress }, signal);
  },
  endTracking: async (id) => pool.trackChanges(id).end(signal),
};

process.on('disconnect', () => process.exit()); // the test ended
process.on('message', ({ method, argument }: { method: keyof Agent; argument: never }) => {
  agent[method](argument).then(
    (value) => process.send?.({ value }),
    (error: Error) => process.send?.({ error: error.name }),
  );
});
process.send?.({ ready: true });

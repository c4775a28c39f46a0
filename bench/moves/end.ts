/**
 * node bench/moves/end.ts source|target FILE
 *
 * One end of a move in a process of its own, as an agent runs it, with a file as the device. It answers messages of its
 * parent process.
 */
import { stat } from 'node:fs/promises';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { BlockMap } from '../../src/engine/changes/block-map.ts';
import { InMemoryPool } from '../../src/engine/testing/in-memory-pool.ts';
import type { Certificate } from '../../src/http/self-signed.ts';
import { newMoveKey } from '../../src/node/mover/move-key.ts';
import { Mover, type RoundResult } from '../../src/node/mover/mover.ts';

/** What the parent requests. */
export type Request =
  | { readonly type: 'certificate' }
  | { readonly type: 'cpu' }
  | { readonly type: 'offer'; readonly peerCertificate: string }
  | { readonly type: 'pull'; readonly port: number; readonly peerCertificate: string };
/** The answers. */
export interface Answers {
  readonly certificate: string;
  /** Seconds of the whole process so far. */
  readonly cpu: number;
  readonly offer: number;
  readonly pull: RoundResult;
}

const [role, path = ''] = process.argv.slice(2);
const moveUid = '00000000-0000-4000-8000-000000000001';
const { size } = await stat(path);
const mover = new Mover({ port: 0, clock: systemClock, log: silentLog });
const own: Certificate = await newMoveKey(Date.now());

/** A device of its own, as a new thick volume has. */
class FilePoolOfBench extends InMemoryPool {
  override get(id: string) {
    const volume = super.get(id);
    return volume && { ...volume, devicePath: path };
  }
}

async function answer(request: Request): Promise<unknown> {
  switch (request.type) {
    case 'certificate':
      return own.cert;
    case 'cpu': {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1e6;
    }
    case 'offer': {
      const tracking = {
        round: async () => ({
          ...{ checkpoint: 'all', devicePath: path, sizeBytes: BigInt(size), blocks: BlockMap.all(size, 'data') },
        }),
        end: async () => undefined,
      };
      const { peerCertificate } = request;
      return (await mover.offer(moveUid, { tracking, tags: () => [], own, peerCertificate })).port;
    }
    case 'pull': {
      const pool = new FilePoolOfBench('bench', BigInt(size));
      await pool.create({ id: 'copy', sizeBytes: BigInt(size), tags: [] });
      const { port, peerCertificate } = request;
      const source = { moveUid, host: '127.0.0.1', port, own, peerCertificate };
      return mover.pull({ ...source, kind: 'next', pool, volumeId: 'copy' }, new AbortController().signal);
    }
  }
}

process.on('disconnect', () => process.exit()); // the parent ended
process.on('message', (request: Request) => void answer(request).then((value) => process.send?.(value)));
process.send?.(role);

import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, open, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Statistics, statisticsOf } from '../statistics.ts';
import type { Answers, Request } from './end.ts';
import { type Copied, SocatSide } from './socat.ts';

const mebibyte = 1024 ** 2;
const sizeBytes = 512 * mebibyte;
const rounds = 5;
/** As bin/moorage starts an agent. */
const flags = ['--optimize-for-size', '--max-semi-space-size=2', '--no-opt', '--no-maglev'];
const environment = { ...process.env, MALLOC_ARENA_MAX: '1', UV_THREADPOOL_SIZE: '64' };

export interface Throughput {
  /** MiB per second. */
  readonly mibPerSecond: Record<'moorage' | 'socat', Statistics>;
  /** Of both ends together. */
  readonly cpuSecondsPerGib: Record<'moorage' | 'socat', Statistics>;
  readonly ratio: number;
}

/** Copies the same data over loopback by turns: files in memory, so that no disk limits either side. */
export async function measureThroughput(say: (detail: string) => void): Promise<Throughput> {
  const dir = await mkdtemp('/dev/shm/moorage-bench-');
  try {
    const [from, to] = [join(dir, 'from'), join(dir, 'to')];
    await fillRandomly(from);
    await writeFile(to, '');
    await truncate(to, sizeBytes);
    const moorage = await MoorageSide.start(from, to);
    const socat = await SocatSide.prepare(dir, from, to);
    const samples: Record<'moorage' | 'socat', Copied[]> = { moorage: [], socat: [] };
    for (let round = 0; round <= rounds; round++) {
      for (const side of [moorage, socat]) {
        say(`${side.name}, round ${round} of ${rounds}`);
        const copied = await side.copy();
        if (round > 0) samples[side.name].push(copied); // the first one only warms up
      }
    }
    moorage.stop();
    const bySide = (value: (copied: Copied) => number) => ({
      moorage: statisticsOf(samples.moorage.map(value)),
      socat: statisticsOf(samples.socat.map(value)),
    });
    const mibPerSecond = bySide(({ seconds }) => sizeBytes / mebibyte / seconds);
    return {
      mibPerSecond,
      cpuSecondsPerGib: bySide(({ cpuSeconds }) => (cpuSeconds * 1024 ** 3) / sizeBytes),
      ratio: Number((mibPerSecond.moorage.median / mibPerSecond.socat.median).toPrecision(3)),
    };
  } finally {
    await rm(dir, { recursive: true });
  }
}

async function fillRandomly(path: string): Promise<void> {
  await using file = await open(path, 'w');
  for (let at = 0; at < sizeBytes; at += 16 * mebibyte) await file.write(randomBytes(16 * mebibyte));
}

/** Two processes, as on two nodes. */
class MoorageSide {
  readonly name = 'moorage';
  readonly #source: ChildProcess;
  readonly #target: ChildProcess;

  private constructor(source: ChildProcess, target: ChildProcess) {
    this.#source = source;
    this.#target = target;
  }

  static async start(from: string, to: string): Promise<MoorageSide> {
    const start = async (role: string, path: string) => {
      const child = fork(join(import.meta.dirname, 'end.ts'), [role, path], { execArgv: flags, env: environment });
      await once(child, 'message');
      return child;
    };
    return new MoorageSide(await start('source', from), await start('target', to));
  }

  async copy(): Promise<Copied> {
    const [source, target] = [this.#source, this.#target];
    const before = await this.#cpuSeconds();
    const peerCertificate = await ask(source, { type: 'certificate' });
    const port = await ask(source, { type: 'offer', peerCertificate: await ask(target, { type: 'certificate' }) });
    const { durationMs } = await ask(target, { type: 'pull', port, peerCertificate });
    return { seconds: durationMs / 1000, cpuSeconds: (await this.#cpuSeconds()) - before };
  }

  async #cpuSeconds(): Promise<number> {
    return (await ask(this.#source, { type: 'cpu' })) + (await ask(this.#target, { type: 'cpu' }));
  }

  stop(): void {
    for (const child of [this.#source, this.#target]) child.kill();
  }
}

async function ask<Type extends Request['type']>(
  child: ChildProcess,
  request: Extract<Request, { type: Type }>,
): Promise<Answers[Type]> {
  child.send(request);
  const [answer] = (await once(child, 'message')) as [Answers[Type]];
  return answer;
}

import { type ChildProcess, fork, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, open, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { newMoveKey } from '../../src/node/mover/move-key.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { type Statistics, statisticsOf } from '../statistics.ts';
import type { Answers, Request } from './end.ts';

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

interface Copied {
  readonly seconds: number;
  readonly cpuSeconds: number;
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

/** What an administrator would type: TLS with both certificates, and a checksum at both ends. */
class SocatSide {
  readonly name = 'socat';
  readonly #dir: string;
  readonly #from: string;
  readonly #to: string;

  private constructor(dir: string, from: string, to: string) {
    this.#dir = dir;
    this.#from = from;
    this.#to = to;
  }

  static async prepare(dir: string, from: string, to: string): Promise<SocatSide> {
    for (const end of ['source', 'target']) {
      const { cert, key } = await newMoveKey(Date.now());
      await writeFile(join(dir, `${end}.crt`), cert);
      await writeFile(join(dir, `${end}.pem`), `${key}${cert}`);
    }
    return new SocatSide(dir, from, to);
  }

  async copy(): Promise<Copied> {
    const port = await freePort();
    const tls = (own: string, peer: string) =>
      `cert=${this.#dir}/${own}.pem,cafile=${this.#dir}/${peer}.crt,verify=1,openssl-min-proto-version=TLS1.3`;
    // Named pipes, as a shell does not wait for the end of >(sha256sum).
    const source = bash(
      `cd ${this.#dir}; rm -f out; mkfifo out; sha256sum <out >sent & tee out <${this.#from} |` +
        ` socat -u -b ${mebibyte} STDIN OPENSSL-LISTEN:${port},reuseaddr,${tls('source', 'target')}`,
    );
    await eventually('socat listens', () => isListening(port));
    const started = performance.now();
    const target = bash(
      `cd ${this.#dir}; rm -f in; mkfifo in; sha256sum <in >received & socat -u -b ${mebibyte} OPENSSL:127.0.0.1:${port},commonname=move.moorage,${tls('target', 'source')} STDOUT |` +
        ` tee in >${this.#to}; sync ${this.#to}`,
    );
    const cpuSeconds = (await Promise.all([source, target])).reduce((sum, one) => sum + one, 0);
    const seconds = (performance.now() - started) / 1000;
    const [sent, received] = await Promise.all(
      ['sent', 'received'].map((name) => readFile(join(this.#dir, name), 'utf8')),
    );
    if (!sent || sent !== received) throw new Error(`socat copied something else: ${sent} and ${received}`);
    return { seconds, cpuSeconds };
  }
}

/** Returns the CPU seconds of all its commands. */
async function bash(script: string): Promise<number> {
  const child = spawn('bash', ['-c', `set -e; ${script}; wait; times`], { stdio: ['ignore', 'pipe', 'inherit'] });
  let printed = '';
  child.stdout.on('data', (piece: Buffer) => {
    printed += piece.toString();
  });
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`exit code ${code} of: ${script}`);
  const times = [...printed.matchAll(/(\d+)m([\d.]+)s/g)];
  return times.reduce((sum, [, minutes, seconds]) => sum + Number(minutes) * 60 + Number(seconds), 0);
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}

async function isListening(port: number): Promise<boolean> {
  const listening = `:${port.toString(16).toUpperCase().padStart(4, '0')} `;
  const tables = await Promise.all(['tcp', 'tcp6'].map((name) => readFile(`/proc/net/${name}`, 'utf8')));
  return tables
    .join('')
    .split('\n')
    .some((line) => line.includes(listening) && / 0A /.test(line));
}

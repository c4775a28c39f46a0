import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { newMoveKey } from '../../src/node/mover/move-key.ts';
import { eventually } from '../../worlds/host/eventually.ts';

const mebibyte = 1024 ** 2;

export interface Copied {
  readonly seconds: number;
  readonly cpuSeconds: number;
}

/** What an administrator would type to copy a file or device: TLS with both certificates, and a checksum at both ends. */
export class SocatSide {
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

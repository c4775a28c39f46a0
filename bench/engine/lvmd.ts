import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { stringify } from 'yaml';
import { RpcClient } from '../../src/rpc/client.ts';
import { LVService, VGService } from '../../src/rpc/gen/lvmd/lvmd_pb.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import {
  grownBytes,
  type Place,
  placeName,
  places,
  type Side,
  type SideName,
  thinPool,
  volumeBytes,
  volumeGroupOf,
} from './side.ts';

const timeoutMs = 120_000;
const startTimeoutMs = 30_000;
const restMs = 1_500;

/** A daemon that serves TopoLVM's lvmd protocol (Moorage's or TopoLVM's own), and one client. */
export class Lvmd implements Side {
  readonly name: SideName;
  readonly #daemon: ChildProcess;
  readonly #socketPath: string;
  readonly #volumes: RpcClient<typeof LVService>;
  readonly #groups: RpcClient<typeof VGService>;

  private constructor(name: SideName, daemon: ChildProcess, socketPath: string) {
    this.name = name;
    this.#daemon = daemon;
    this.#socketPath = socketPath;
    this.#volumes = new RpcClient(LVService, socketPath);
    this.#groups = new RpcClient(VGService, socketPath);
  }

  /** Starts the daemon with its files below `dir`; resolves when it answers. */
  static async start(name: SideName, command: readonly string[], dir: string): Promise<Lvmd> {
    const socketPath = join(dir, `${name}.sock`);
    const configPath = join(dir, `${name}.yaml`);
    const logPath = join(dir, `${name}.log`);
    await writeFile(configPath, stringify(configuration(name, socketPath)));
    const [program = '', ...words] = command;
    const log = openSync(logPath, 'a');
    const daemon = spawn(program, [...words, '--config', configPath], { stdio: ['ignore', log, log] });
    closeSync(log);
    const lvmd = new Lvmd(name, daemon, socketPath);
    const [place] = places;
    await eventually(`${name} answers`, () => lvmd.freeBytes(place as Place), {
      timeoutMs: startTimeoutMs,
      explain: () => readFile(logPath, 'utf8'),
    });
    return lvmd;
  }

  /** Another client of the same daemon, with its own connection. */
  another(): Lvmd {
    return new Lvmd(this.name, this.#daemon, this.#socketPath);
  }

  create(place: Place, id: string): Promise<unknown> {
    const request = { name: id, deviceClass: placeName(place), sizeBytes: volumeBytes, tags: [] };
    return this.#volumes.methods.createLV(request, { timeoutMs });
  }

  grow(place: Place, id: string): Promise<unknown> {
    const request = { name: id, deviceClass: placeName(place), sizeBytes: grownBytes };
    return this.#volumes.methods.resizeLV(request, { timeoutMs });
  }

  remove(place: Place, id: string): Promise<unknown> {
    return this.#volumes.methods.removeLV({ name: id, deviceClass: placeName(place) }, { timeoutMs });
  }

  list(place: Place): Promise<unknown> {
    return this.#groups.methods.getLVList({ deviceClass: placeName(place) }, { timeoutMs });
  }

  freeBytes(place: Place): Promise<unknown> {
    return this.#groups.methods.getFreeBytes({ deviceClass: placeName(place) }, { timeoutMs });
  }

  resume(): void {
    this.#daemon.kill('SIGCONT');
  }

  /** Pauses the daemon after a delay: paused in the middle of an LVM report, it would keep LVM's lock. */
  async pause(): Promise<void> {
    await delay(restMs);
    this.#daemon.kill('SIGSTOP');
  }

  /** The memory of the daemon, without its child processes. */
  async residentMib(): Promise<number> {
    const status = await readFile(`/proc/${this.#daemon.pid}/status`, 'utf8');
    return Math.round(Number(/^VmRSS:\s*(\d+) kB$/m.exec(status)?.[1]) / 102.4) / 10;
  }

  close(): void {
    this.#volumes[Symbol.dispose]();
    this.#groups[Symbol.dispose]();
  }

  /** Ends the daemon. */
  async stop(): Promise<void> {
    this.close();
    const exited = once(this.#daemon, 'exit');
    this.resume();
    this.#daemon.kill('SIGTERM');
    await exited;
  }
}

/** The same for both daemons, except for the volume groups. */
function configuration(side: SideName, socketPath: string): object {
  return {
    'socket-name': socketPath,
    'lvm-command-prefix': ['/sbin/lvm'],
    'device-classes': places.map((place, index) => ({
      name: placeName(place),
      'volume-group': volumeGroupOf(side, place),
      default: index === 0,
      'spare-gb': 0,
      type: place.kind,
      ...(place.kind === 'thin' && { 'thin-pool': { name: thinPool, 'overprovision-ratio': 10 } }),
    })),
  };
}

import assert from 'node:assert/strict';
import { Duplex } from 'node:stream';
import { test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import * as fc from 'fast-check';
import { ManualClock } from '../../base/testing/manual-clock.ts';
import { Connection } from './connection.ts';

/** A socket that a test feeds. */
class FedSocket extends Duplex {
  readonly written: Buffer[] = [];

  override _read(): void {}

  override _write(piece: Buffer, _encoding: string, done: () => void): void {
    this.written.push(piece);
    done();
  }

  setNoDelay(): void {}
}

function connected(clock = new ManualClock()) {
  const socket = new FedSocket();
  const connection = new Connection(socket as unknown as TLSSocket, 'peer', { silenceMs: 60_000, clock });
  return { socket, connection, clock };
}

test('what is read is what was sent, however it was split on its way', async () => {
  const sizes = fc.array(fc.integer({ min: 1, max: 200_000 }), { minLength: 1, maxLength: 30 });
  await fc.assert(
    fc.asyncProperty(sizes, sizes, fc.boolean(), async (pieces, reads, isEarly) => {
      const total = Math.min(sum(pieces), sum(reads));
      const sent = Buffer.from(Array.from({ length: sum(pieces) }, (_, index) => index % 251));
      const { socket, connection } = connected();
      const feed = () => {
        for (let at = 0, index = 0; at < sent.length; index++) {
          socket.push(sent.subarray(at, at + (pieces[index] ?? 0)));
          at += pieces[index] ?? 0;
        }
      };
      if (isEarly) feed();
      else setImmediate(feed);
      const received: Buffer[] = [];
      for (const size of reads) {
        if (sum(received.map(({ length }) => length)) + size > total) break;
        const into = Buffer.alloc(size);
        await connection.read(into);
        received.push(into);
      }
      const all = Buffer.concat(received);
      assert.ok(all.equals(sent.subarray(0, all.length)));
      await connection.close();
    }),
    { numRuns: 20 },
  );
});

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

test('a peer that is silent for a minute is lost, and one that sends is not', async () => {
  const { socket, connection, clock } = connected();
  const reading = connection.read(Buffer.alloc(100));
  for (let beat = 0; beat < 20; beat++) {
    clock.advance(15_000);
    socket.push(Buffer.alloc(1));
    await new Promise(setImmediate);
  }
  assert.ok(!connection.signal.aborted);
  assert.ok(socket.written.length >= 20, 'this end was heard all the time');
  clock.advance(90_000);
  await assert.rejects(reading, { name: 'PeerLost', message: /silent for 60 s/ });
  assert.equal(clock.timers, 0);
});

test('an end that is too slow to read does not count as a silent peer', async () => {
  const { socket, connection, clock } = connected();
  for (let pieces = 0; pieces < 100; pieces++) socket.push(Buffer.alloc(65_536));
  await new Promise(setImmediate);
  clock.advance(600_000);
  assert.ok(!connection.signal.aborted);
  await connection.close();
});

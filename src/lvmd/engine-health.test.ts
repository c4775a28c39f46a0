import assert from 'node:assert/strict';
import { test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { CommandTimedOut } from '../base/exec.ts';
import { ManualClock } from '../base/testing/manual-clock.ts';
import { silentLog } from '../base/testing/silent-log.ts';
import { PoolMissing } from '../engine/errors.ts';
import { BeingOpened, Pools } from '../engine/pools.ts';
import { InMemoryPool } from '../engine/testing/in-memory-pool.ts';
import {
  HealthCheckRequestSchema,
  HealthCheckResponse_ServingStatus as Status,
} from '../rpc/gen/grpc/health/v1/health_pb.ts';
import { engineHealth, engineProblems } from './engine-health.ts';

const { signal } = new AbortController();

function start(refresh: (signal: AbortSignal) => Promise<void>, isChanging = false) {
  const pool = new InMemoryPool('ssd', 1n);
  let refreshes = 0;
  pool.refresh = async (signal?: AbortSignal) => {
    refreshes++;
    if (signal) await refresh(signal);
  };
  pool.isChanging = () => isChanging;
  const clock = new ManualClock();
  const health = engineHealth(new Pools([pool, new InMemoryPool('well', 1n)], 'ssd'), clock);
  const check = async () => health.check?.(create(HealthCheckRequestSchema, {}), { signal, log: silentLog });
  return { check, clock, refreshes: () => refreshes };
}

test('an engine whose pools answer is healthy', async () => {
  const { check, clock } = start(async () => undefined);
  assert.deepEqual(await check(), { status: Status.SERVING, reason: '' });
  assert.equal(clock.timers, 0);
});

test('a hanging pool makes the engine unhealthy in time, and its check is aborted', async () => {
  const given = Promise.withResolvers<AbortSignal>();
  const { check, clock } = start((signal) => {
    given.resolve(signal);
    return new Promise(() => undefined);
  });
  const answer = check();
  const hanging = await given.promise;
  clock.advance(10_000);
  const reason = 'device class ssd: no answer within 10 s; look for a hanging lvm command or a failing disk';
  assert.deepEqual(await answer, { status: Status.NOT_SERVING, reason });
  assert.equal(hanging.aborted, true);
});

test('a pool that is busy with a change is healthy for as long as a change may take, and no longer', async () => {
  let asked = Promise.withResolvers<void>();
  const { check, clock } = start(() => {
    asked.resolve();
    return new Promise(() => undefined);
  }, true);
  const statusAfter = async (waitedMs: number) => {
    clock.advance(waitedMs);
    asked = Promise.withResolvers<void>();
    const answer = check();
    await asked.promise;
    clock.advance(10_000);
    return (await answer)?.status;
  };
  assert.equal(await statusAfter(0), Status.SERVING);
  assert.equal(await statusAfter(4 * 60_000), Status.SERVING);
  assert.equal(await statusAfter(60_000), Status.NOT_SERVING);
});

test('a failing pool is reported with its reason', async () => {
  const { check } = start(() => Promise.reject(new Error('device-mapper is gone')));
  assert.deepEqual(await check(), {
    status: Status.NOT_SERVING,
    reason: 'device class ssd: device-mapper is gone',
  });
});

test('a missing volume group does not make the engine unhealthy: a restart would not bring it back', async () => {
  const { check } = start(() => Promise.reject(new PoolMissing('volume group vg is not on this node; create it')));
  assert.equal((await check())?.status, Status.SERVING);
});

test('a class that could not be opened makes the engine unhealthy, unless its volume group is missing', async () => {
  const pools = new Pools();
  const health = engineHealth(pools, new ManualClock());
  const check = async () => health.check?.(create(HealthCheckRequestSchema, {}), { signal, log: silentLog });
  const become = (error: Error) =>
    pools.become({ pools: [], defaultClass: undefined, unavailable: new Map([['ssd', error]]) });
  become(new PoolMissing('volume group vg is not on this node; create it'));
  assert.equal((await check())?.status, Status.SERVING);
  become(new CommandTimedOut(['lvm', 'fullreport'], 60_000));
  const answer = await check();
  assert.equal(answer?.status, Status.NOT_SERVING);
  assert.match(answer.reason ?? '', /^device class ssd: lvm fullreport took longer than 60 s/);
});

test('a class that is still being opened is reported, and does not make the engine unhealthy', async () => {
  const pools = new Pools();
  pools.become({ pools: [], defaultClass: undefined, unavailable: new Map([['thin', new BeingOpened()]]) });
  const health = engineHealth(pools, new ManualClock());
  const answer = await health.check?.(create(HealthCheckRequestSchema, {}), { signal, log: silentLog });
  assert.equal(answer?.status, Status.SERVING);
  assert.match(answer.reason ?? '', /^device class thin: it is still being opened/);
});

test('an engine reports classes that are not served, and one that has not answered for a long time', () => {
  const pools = new Pools();
  const unavailable = new Map<string, Error>([
    ['thin', new BeingOpened()],
    ['none', new PoolMissing('volume group vg is not on this node; create it')],
    ['hdd', new CommandTimedOut(['lvm', 'fullreport'], 60_000)],
  ]);
  pools.become({ pools: [], defaultClass: undefined, unavailable });
  const slowest = { key: 'ssd on vg0', forMs: 20 * 60_000 };
  const problems = engineProblems({ pools, slowest });
  assert.equal(problems.length, 3);
  assert.match(problems.join('; '), /^device class thin: .*; device class hdd: lvm .*ssd on vg0 has made no progress/);
  pools.become({ pools: [], defaultClass: undefined, unavailable: new Map() });
  assert.deepEqual(engineProblems({ pools, slowest: undefined }), []);
});

test('concurrent health checks share one answer, and the next check starts again', async () => {
  const { check, refreshes } = start(async () => undefined);
  await Promise.all([check(), check(), check()]);
  assert.equal(refreshes(), 1);
  await check();
  assert.equal(refreshes(), 2);
});

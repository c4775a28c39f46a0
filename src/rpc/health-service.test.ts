import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Health, HealthCheckResponse_ServingStatus as Status } from './gen/grpc/health/v1/health_pb.ts';
import { healthService } from './health-service.ts';
import { serving } from './testing/serving.ts';

test('a server is healthy as soon as it is ready', async (t) => {
  let ready = false;
  const calls = await serving(
    t,
    Health,
    healthService(() => ready),
  );
  assert.equal((await calls.check({}, { timeoutMs: 120_000 })).status, Status.NOT_SERVING);
  ready = true;
  assert.equal((await calls.check({}, { timeoutMs: 120_000 })).status, Status.SERVING);
});

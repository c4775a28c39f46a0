import { type Health, HealthCheckResponse_ServingStatus as Status } from './gen/grpc/health/v1/health_pb.ts';
import type { Implementation } from './server.ts';

/** Gives the same answer for the whole server and for each of its services. */
export function healthService(ready: () => boolean): Implementation<typeof Health> {
  return { check: async () => ({ status: ready() ? Status.SERVING : Status.NOT_SERVING }) };
}

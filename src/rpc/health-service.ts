import { type Health, HealthCheckResponse_ServingStatus as Status } from './gen/grpc/health/v1/health_pb.ts';
import type { Implementation } from './server.ts';

/** Answers for the server as a whole and for each of its services alike. */
export function healthService(ready: () => boolean): Implementation<typeof Health> {
  return { check: async () => ({ status: ready() ? Status.SERVING : Status.NOT_SERVING }) };
}

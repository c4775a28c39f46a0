import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { GetLVListResponseSchema } from '../../src/rpc/gen/lvmd/lvmd_pb.ts';
import type { Place, Side } from './side.ts';

/** Warms up the client, whose own start-up time must not count. */
export function warmUpClient(): void {
  const volume = { name: 'other', sizeBytes: 2n ** 32n, tags: ['tag'], path: '/dev/group/other', attr: '-wi-a-----' };
  const list = create(GetLVListResponseSchema, { volumes: Array.from({ length: 200 }, () => volume) });
  for (let i = 0; i < 100; i++) fromBinary(GetLVListResponseSchema, toBinary(GetLVListResponseSchema, list));
}

/** A daemon serves lists all the time; its first ones are not representative. */
export async function warmUp(side: Side, place: Place): Promise<void> {
  side.resume();
  for (let i = 0; i < 10; i++) await side.list(place);
  await side.pause();
}

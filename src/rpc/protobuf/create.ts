import { decode } from './decode.ts';
import { encode } from './encode.ts';
import type { Message, MessageInit, MessageSchema } from './schema.ts';

/** For tests: a message as whoever receives it sees it. */
export function create<T extends Message>(schema: MessageSchema<T>, init: MessageInit<T>): T {
  return decode(schema, encode(schema, init));
}

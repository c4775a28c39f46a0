import { InvalidInput, messageOf } from '../base/errors.ts';
import { decode } from './protobuf/decode.ts';
import type {
  Message,
  MessageInitShape,
  MessageSchema,
  MessageShape,
  MethodKind,
  MethodSchema,
  ServiceSchema,
} from './protobuf/schema.ts';

type MethodsOf<S extends ServiceSchema> = NonNullable<S['$methods']>;
type MethodsOfKind<S extends ServiceSchema, Kind extends MethodKind> = {
  [K in keyof MethodsOf<S>]: MethodsOf<S>[K]['methodKind'] extends Kind ? K : never;
}[keyof MethodsOf<S>];

/** The names of a service's methods that take one message and return one. */
export type UnaryMethod<S extends ServiceSchema> = MethodsOfKind<S, 'unary'>;

/** The names of those that take one message and return many. */
export type StreamMethod<S extends ServiceSchema> = MethodsOfKind<S, 'server_streaming'>;

export type Received<
  S extends ServiceSchema,
  K extends keyof MethodsOf<S>,
  Side extends 'input' | 'output',
> = MessageShape<MethodsOf<S>[K][Side]>;

/** Messages are sent as plain objects: what is left out has its default. */
export type Sent<
  S extends ServiceSchema,
  K extends keyof MethodsOf<S>,
  Side extends 'input' | 'output',
> = MessageInitShape<MethodsOf<S>[K][Side]>;

/** Any message as a plain object, where its type is known at run time only. */
export type PlainMessage = Record<string, unknown>;

export function pathOf({ service, name }: MethodSchema): string {
  return `/${service}/${name}`;
}

export function received(schema: MessageSchema, bytes: Uint8Array): Message {
  try {
    return decode(schema, bytes);
  } catch (cause) {
    throw new InvalidInput(`these bytes are no ${schema.typeName} (${messageOf(cause)}); send one`, { cause });
  }
}

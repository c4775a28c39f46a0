import {
  create,
  type DescMessage,
  type DescMethod,
  type DescService,
  fromBinary,
  type Message,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import { InvalidInput, messageOf } from '../base/errors.ts';

/** The names of a service's methods that take one message and return one. */
export type UnaryMethod<S extends DescService> = {
  [K in keyof S['method']]: S['method'][K]['methodKind'] extends 'unary' ? K : never;
}[keyof S['method']];

/** The names of those that take one message and return many. */
export type StreamMethod<S extends DescService> = {
  [K in keyof S['method']]: S['method'][K]['methodKind'] extends 'server_streaming' ? K : never;
}[keyof S['method']];

export type Received<
  S extends DescService,
  K extends keyof S['method'],
  Side extends 'input' | 'output',
> = MessageShape<S['method'][K][Side]>;

/** Messages are sent as plain objects: what is left out has its default. */
export type Sent<
  S extends DescService,
  K extends keyof S['method'],
  Side extends 'input' | 'output',
> = MessageInitShape<S['method'][K][Side]>;

/** Any message as a plain object, where its type is known at run time only. */
export type PlainMessage = Record<string, unknown>;

export function pathOf({ parent, name }: DescMethod): string {
  return `/${parent.typeName}/${name}`;
}

export function encode(schema: DescMessage, message: object): Uint8Array {
  return toBinary(schema, create(schema, message as PlainMessage));
}

export function decode(schema: DescMessage, bytes: Uint8Array): Message {
  try {
    return fromBinary(schema, bytes);
  } catch (cause) {
    throw new InvalidInput(`these bytes are no ${schema.typeName} (${messageOf(cause)}); send one`, { cause });
  }
}

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

type MethodsOfKind<S extends DescService, Kind extends DescMethod['methodKind']> = {
  [K in keyof S['method']]: S['method'][K]['methodKind'] extends Kind ? K : never;
}[keyof S['method']];

/** The names of the unary methods of a service. */
export type UnaryMethod<S extends DescService> = MethodsOfKind<S, 'unary'>;

/** The names of the server-streaming methods. */
export type StreamMethod<S extends DescService> = MethodsOfKind<S, 'server_streaming'>;

export type Received<
  S extends DescService,
  K extends keyof S['method'],
  Side extends 'input' | 'output',
> = MessageShape<S['method'][K][Side]>;

/** Messages are sent as plain objects: a missing field has its default value. */
export type Sent<
  S extends DescService,
  K extends keyof S['method'],
  Side extends 'input' | 'output',
> = MessageInitShape<S['method'][K][Side]>;

/** A message that is encoded once because it is sent often. It can only be sent: it has no fields. */
export function encodedMessage<Desc extends DescMessage>(_schema: Desc, bytes: Uint8Array): MessageInitShape<Desc> {
  return new EncodedMessage(bytes) as object as MessageInitShape<Desc>;
}

class EncodedMessage {
  readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }
}

/** Any message as a plain object, if its type is known only at run time. */
export type PlainMessage = Record<string, unknown>;

export function pathOf({ parent, name }: DescMethod): string {
  return `/${parent.typeName}/${name}`;
}

export function encode(schema: DescMessage, message: object): Uint8Array {
  if (message instanceof EncodedMessage) return message.bytes;
  return toBinary(schema, create(schema, message as PlainMessage));
}

export function decode(schema: DescMessage, bytes: Uint8Array): Message {
  try {
    return fromBinary(schema, bytes);
  } catch (cause) {
    throw new InvalidInput(`cannot decode message as ${schema.typeName}: ${messageOf(cause)}`, { cause });
  }
}

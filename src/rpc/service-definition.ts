import {
  create,
  type DescMethod,
  type DescService,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import type { MethodDefinition, ServiceDefinition } from '@grpc/grpc-js';

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

/** A generated service in the form that grpc-js serves and calls. */
export function serviceDefinition(service: DescService): ServiceDefinition {
  return Object.fromEntries(service.methods.map((method) => [method.localName, methodDefinition(method)]));
}

export function methodDefinition({
  parent,
  name,
  input,
  output,
  methodKind,
}: DescMethod): MethodDefinition<PlainMessage, PlainMessage> {
  return {
    path: `/${parent.typeName}/${name}`,
    requestStream: methodKind === 'client_streaming' || methodKind === 'bidi_streaming',
    responseStream: methodKind === 'server_streaming' || methodKind === 'bidi_streaming',
    requestSerialize: (message) => Buffer.from(toBinary(input, create(input, message))),
    requestDeserialize: (bytes) => fromBinary(input, bytes),
    responseSerialize: (message) => Buffer.from(toBinary(output, create(output, message))),
    responseDeserialize: (bytes) => fromBinary(output, bytes),
  };
}

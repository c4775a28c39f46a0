/** What the generated files import, in place of Protobuf's own runtime, and by the names that it has there. */
import { FileDescriptor, type MessageDescriptor } from './descriptor.ts';
import type { Message, MessageSchema, ServiceSchema } from './schema.ts';

export type { Message, MessageSchema as GenMessage, ServiceSchema as GenService } from './schema.ts';
export type GenFile = FileDescriptor;

/** A number that an enum of a newer version may have. */
export type UnknownEnum = number & { readonly __unknown_enum: true };

export type Timestamp = Message<'google.protobuf.Timestamp'> & { seconds: bigint; nanos: number };

export function fileDesc(base64: string, imports?: readonly FileDescriptor[]): FileDescriptor {
  return new FileDescriptor(Buffer.from(base64, 'base64'), imports);
}

/** By its place in the file, and its places in the messages around it. */
export function messageDesc<T extends Message>(file: FileDescriptor, ...path: readonly number[]): MessageSchema<T> {
  let among: readonly MessageDescriptor[] = file.messages;
  let found: MessageDescriptor | undefined;
  for (const place of path) {
    found = among[place];
    among = found?.nested ?? [];
  }
  if (!found) throw new Error('a generated message is not in its file; run npm run generate');
  return found as MessageSchema as MessageSchema<T>;
}

export function serviceDesc<M extends ServiceSchema['$methods'] & object>(
  file: FileDescriptor,
  place: number,
): ServiceSchema<M> {
  const found = file.services[place];
  if (!found) throw new Error('a generated service is not in its file; run npm run generate');
  return found as ServiceSchema<M>;
}

/** Nobody asks for those of enums and options. */
export type GenEnum<_Shape> = undefined;
export type GenExtension<_Extended, _Shape> = undefined;
export type FieldOptions = Message<'google.protobuf.FieldOptions'>;
export const enumDesc = (..._place: readonly unknown[]): undefined => undefined;
export const extDesc = (..._place: readonly unknown[]): undefined => undefined;
export const file_google_protobuf_descriptor: FileDescriptor = fileDesc('');

// Two small files of Google's that csi.proto imports, as their compiler describes them.
export const file_google_protobuf_timestamp: FileDescriptor = fileDesc(
  'Ch9nb29nbGUvcHJvdG9idWYvdGltZXN0YW1wLnByb3RvEg9nb29nbGUucHJvdG9idWYiKwoJVGltZXN0YW1wEg8KB3NlY29uZHMYASABKAMSDQoFbmFub3MYAiABKAVChQEKE2NvbS5nb29nbGUucHJvdG9idWZCDlRpbWVzdGFtcFByb3RvUAFaMmdvb2dsZS5nb2xhbmcub3JnL3Byb3RvYnVmL3R5cGVzL2tub3duL3RpbWVzdGFtcHBi+AEBogIDR1BCqgIeR29vZ2xlLlByb3RvYnVmLldlbGxLbm93blR5cGVzYgZwcm90bzM',
);
export const file_google_protobuf_wrappers: FileDescriptor = fileDesc(
  'Ch5nb29nbGUvcHJvdG9idWYvd3JhcHBlcnMucHJvdG8SD2dvb2dsZS5wcm90b2J1ZiIcCgtEb3VibGVWYWx1ZRINCgV2YWx1ZRgBIAEoASIbCgpGbG9hdFZhbHVlEg0KBXZhbHVlGAEgASgCIhsKCkludDY0VmFsdWUSDQoFdmFsdWUYASABKAMiHAoLVUludDY0VmFsdWUSDQoFdmFsdWUYASABKAQiGwoKSW50MzJWYWx1ZRINCgV2YWx1ZRgBIAEoBSIcCgtVSW50MzJWYWx1ZRINCgV2YWx1ZRgBIAEoDSIaCglCb29sVmFsdWUSDQoFdmFsdWUYASABKAgiHAoLU3RyaW5nVmFsdWUSDQoFdmFsdWUYASABKAkiGwoKQnl0ZXNWYWx1ZRINCgV2YWx1ZRgBIAEoDEKDAQoTY29tLmdvb2dsZS5wcm90b2J1ZkINV3JhcHBlcnNQcm90b1ABWjFnb29nbGUuZ29sYW5nLm9yZy9wcm90b2J1Zi90eXBlcy9rbm93bi93cmFwcGVyc3Bi+AEBogIDR1BCqgIeR29vZ2xlLlByb3RvYnVmLldlbGxLbm93blR5cGVzYgZwcm90bzM',
);

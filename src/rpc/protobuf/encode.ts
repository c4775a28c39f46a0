import type { Field, FieldType, Message, MessageInit, MessageSchema, ScalarType } from './schema.ts';
import { wireType } from './wire-reader.ts';
import { WireWriter } from './wire-writer.ts';

type Values = Readonly<Record<string, unknown>>;

/** A plain object as the bytes of a message. */
export function encode<T extends Message>(schema: MessageSchema<T>, init: MessageInit<T>): Uint8Array {
  const writer = new WireWriter();
  write(writer, schema, init);
  return writer.finish();
}

function write(writer: WireWriter, schema: MessageSchema, values: Values): void {
  for (const field of schema.fields) {
    const value = field.oneof === undefined ? values[field.name] : chosen(values[field.oneof], field.name);
    if (value !== undefined && value !== null) writeField(writer, field, value);
  }
  if (values['$encoded'] instanceof Uint8Array) writer.raw(values['$encoded']);
}

/** The value of a choice, if this is the one that was taken. */
function chosen(choice: unknown, name: string): unknown {
  const { case: taken, value } = (choice ?? {}) as { readonly case?: string; readonly value?: unknown };
  return taken === name ? value : undefined;
}

function writeField(writer: WireWriter, field: Field, value: unknown): void {
  if (field.isMap) {
    for (const [key, text] of Object.entries(value as Readonly<Record<string, string>>)) {
      writer.tag(field.number, field.wireType).nested(() => {
        writer.tag(1, wireType.counted).string(key).tag(2, wireType.counted).string(text);
      });
    }
  } else if (field.isList) {
    for (const item of value as readonly unknown[]) writeValue(writer, field, item);
  } else if (field.isOptional || !Object.is(value, field.initial)) {
    writeValue(writer, field, value);
  }
}

function writeValue(writer: WireWriter, { number, wireType, type }: Field, value: unknown): void {
  writer.tag(number, wireType);
  if (type.kind === 'scalar') writeScalar(writer, type.scalar, value);
  else if (type.kind === 'enum') writer.int32(value as number);
  else writer.nested(() => write(writer, type.schema, inner(type, value)));
}

function inner(type: FieldType, value: unknown): Values {
  return type.kind === 'wrapper' ? { value } : (value as Values);
}

function writeScalar(writer: WireWriter, scalar: ScalarType, value: unknown): void {
  if (scalar === 'string') writer.string(value as string);
  else if (scalar === 'int64') writer.int64(value as bigint);
  else if (scalar === 'uint64') writer.uint64(value as bigint);
  else if (scalar === 'bool') writer.bool(value as boolean);
  else if (scalar === 'double') writer.double(value as number);
  else if (scalar === 'uint32') writer.uint32(value as number);
  else writer.int32(value as number);
}

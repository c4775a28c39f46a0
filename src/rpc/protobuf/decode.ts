import type { Field, FieldType, Message, MessageSchema, ScalarType } from './schema.ts';
import { WireReader, wireType } from './wire-reader.ts';

type Values = Message & Record<string, unknown>;

/** The message in these bytes, with every field that its schema has. */
export function decode<T extends Message>(schema: MessageSchema<T>, bytes: Uint8Array): T {
  return read(schema, blank(schema), WireReader.of(bytes)) as unknown as T;
}

function read(schema: MessageSchema, into: Values, reader: WireReader): Values {
  while (!reader.isAtEnd) {
    const tag = reader.tag();
    const field = schema.field(tag >>> 3);
    if (field?.wireType === (tag & 7)) {
      readField(into, field, reader);
    } else {
      reader.skip(tag & 7);
      into.$unknown ??= [];
      into.$unknown.push(tag >>> 3);
    }
  }
  return into;
}

function blank(schema: MessageSchema): Values {
  const message: Values = { $typeName: schema.typeName };
  for (const field of schema.fields) {
    if (field.isList) message[field.name] = [];
    else if (field.isMap) message[field.name] = {};
    else if (field.oneof !== undefined) message[field.oneof] = { case: undefined };
    else if (!field.isOptional) message[field.name] = field.initial;
  }
  return message;
}

function readField(into: Values, field: Field, reader: WireReader): void {
  const { name, type, oneof } = field;
  if (field.isMap) {
    const [key, value] = readEntry(reader.nested());
    // Not by assignment: "__proto__" is a key like any other.
    Object.defineProperty(into[name], key, { value, writable: true, enumerable: true, configurable: true });
  } else if (field.isList) {
    (into[name] as unknown[]).push(readValue(type, reader, undefined));
  } else if (oneof !== undefined) {
    const present = into[oneof] as { readonly case: string | undefined; readonly value?: unknown };
    into[oneof] = { case: name, value: readValue(type, reader, present.case === name ? present.value : undefined) };
  } else {
    into[name] = readValue(type, reader, into[name]);
  }
}

function readEntry(reader: WireReader): readonly [key: string, value: string] {
  let [key, value] = ['', ''];
  while (!reader.isAtEnd) {
    const tag = reader.tag();
    if (tag === 8 + wireType.counted) key = reader.string();
    else if (tag === 16 + wireType.counted) value = reader.string();
    else reader.skip(tag & 7);
  }
  return [key, value];
}

/** A message that comes in two parts is one: the second adds to the first. */
function readValue(type: FieldType, reader: WireReader, present: unknown): unknown {
  if (type.kind === 'scalar') return readScalar(type.scalar, reader);
  if (type.kind === 'enum') return reader.int32();
  if (type.kind === 'wrapper') {
    const wrapper = present === undefined ? blank(type.schema) : { ...blank(type.schema), value: present };
    return read(type.schema, wrapper, reader.nested())['value'];
  }
  return read(type.schema, (present as Values | undefined) ?? blank(type.schema), reader.nested());
}

function readScalar(scalar: ScalarType, reader: WireReader): unknown {
  if (scalar === 'string') return reader.string();
  if (scalar === 'int64') return reader.int64();
  if (scalar === 'uint64') return reader.uint64();
  if (scalar === 'bool') return reader.bool();
  if (scalar === 'double') return reader.double();
  return scalar === 'uint32' ? reader.uint32() : reader.int32();
}

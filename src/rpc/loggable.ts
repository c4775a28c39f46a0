import type { Field, FieldType, Message, MessageSchema } from './protobuf/schema.ts';

/** A message for the log: without the fields that are marked as secret, at any depth, and without those that say nothing. */
export function loggable(schema: MessageSchema, message: Message): Readonly<Record<string, unknown>> {
  const values = message as unknown as Readonly<Record<string, unknown>>;
  const shown: Record<string, unknown> = {};
  for (const field of schema.fields) {
    const value = valueOf(values, field);
    if (!field.isSecret && !saysNothing(value)) shown[field.name] = readable(field, value);
  }
  return shown;
}

function valueOf(values: Readonly<Record<string, unknown>>, { name, oneof }: Field): unknown {
  if (oneof === undefined) return values[name];
  const choice = values[oneof] as { readonly case: string | undefined; readonly value?: unknown };
  return choice.case === name ? choice.value : undefined;
}

function saysNothing(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.keys(value).length === 0;
  return value === undefined || value === '' || value === false || value === 0 || value === 0n;
}

function readable({ type, isMap, isList }: Field, value: unknown): unknown {
  if (isMap) return value;
  return isList ? (value as readonly unknown[]).map((item) => one(type, item)) : one(type, value);
}

function one(type: FieldType, value: unknown): unknown {
  if (type.kind === 'message') return loggable(type.schema, value as Message);
  if (type.kind === 'enum') return type.names().get(value as number) ?? value;
  return typeof value === 'bigint' ? String(value) : value;
}

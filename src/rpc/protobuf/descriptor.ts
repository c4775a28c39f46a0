import { DescriptorValues } from './descriptor-values.ts';
import type { Field, FieldType, MessageSchema, MethodSchema, ScalarType, ServiceSchema } from './schema.ts';
import { wireType } from './wire-reader.ts';

// Numbers of google/protobuf/descriptor.proto.
const file = { package: 2, message: 4, service: 6 } as const;
const message = { name: 1, field: 2, nested: 3, enum: 4, options: 7, oneof: 8 } as const;
const messageOptions = { mapEntry: 7 } as const;
const field = { name: 1, number: 3, label: 4, type: 5, typeName: 6, options: 8, oneof: 9, optional: 17 } as const;
const fieldOptions = { secret: 1059 } as const; // csi_secret of csi.proto
const oneofs = { name: 1 } as const;
const enums = { name: 1, value: 2 } as const;
const enumValue = { name: 1, number: 2 } as const;
const service = { name: 1, method: 2 } as const;
const method = { name: 1, input: 2, output: 3, serverStreaming: 6 } as const;
const repeated = 3;
const messageType = 11;
const enumType = 14;
const scalarTypes: Readonly<Record<number, ScalarType>> = {
  1: 'double',
  3: 'int64',
  4: 'uint64',
  5: 'int32',
  8: 'bool',
  9: 'string',
  13: 'uint32',
};

/** A file of messages and services, as the compiler of .proto files describes it. */
export class FileDescriptor {
  readonly #imports: readonly FileDescriptor[];
  readonly #messages = new Map<string, MessageDescriptor>();
  readonly #enums = new Map<string, DescriptorValues>();
  readonly messages: readonly MessageDescriptor[];
  readonly services: readonly ServiceSchema[];

  constructor(bytes: Uint8Array, imports: readonly FileDescriptor[] = []) {
    this.#imports = imports;
    const its = new DescriptorValues(bytes);
    const scope = its.text(file.package);
    this.messages = its.parts(file.message).map((each) => this.#addMessage(scope, each));
    this.services = its.parts(file.service).map((each) => this.#service(scope, each));
  }

  /** By its full name, of this file or of one that it imports. */
  message(typeName: string): MessageDescriptor {
    for (const each of [this, ...this.#imports]) {
      const found = each.#messages.get(typeName);
      if (found) return found;
    }
    throw new Error(`no file has a message ${typeName}; import the one that has it`);
  }

  /** Of an enum inside a message, as all of ours are. */
  enumNames(typeName: string): ReadonlyMap<number, string> {
    const values = this.#enums.get(typeName)?.parts(enums.value) ?? [];
    return new Map(values.map((each) => [each.number(enumValue.number) ?? 0, each.text(enumValue.name)]));
  }

  #addMessage(scope: string, its: DescriptorValues): MessageDescriptor {
    const typeName = `${scope}.${its.text(message.name)}`;
    for (const each of its.parts(message.enum)) this.#enums.set(`${typeName}.${each.text(enums.name)}`, each);
    const nested = its.parts(message.nested).map((each) => this.#addMessage(typeName, each));
    const added = new MessageDescriptor(this, typeName, its, nested);
    this.#messages.set(typeName, added);
    return added;
  }

  #service(scope: string, its: DescriptorValues): ServiceSchema {
    const typeName = `${scope}.${its.text(service.name)}`;
    const methods = its.parts(service.method).map((each): MethodSchema => {
      const name = each.text(method.name);
      return {
        name,
        localName: name.charAt(0).toLowerCase() + name.slice(1),
        service: typeName,
        methodKind: each.isTrue(method.serverStreaming) ? 'server_streaming' : 'unary',
        input: this.message(withoutDot(each.text(method.input))),
        output: this.message(withoutDot(each.text(method.output))),
      };
    });
    return { typeName, methods };
  }
}

export class MessageDescriptor implements MessageSchema {
  readonly #file: FileDescriptor;
  readonly #values: DescriptorValues;
  readonly typeName: string;
  /** What a map is made of. */
  readonly isMapEntry: boolean;
  /** Without the entries of its maps. */
  readonly nested: readonly MessageDescriptor[];
  #fields: readonly Field[] | undefined;
  #byNumber: ReadonlyMap<number, Field> | undefined;

  constructor(of: FileDescriptor, typeName: string, its: DescriptorValues, nested: readonly MessageDescriptor[]) {
    this.#file = of;
    this.#values = its;
    this.typeName = typeName;
    this.isMapEntry = its.parts(message.options).some((options) => options.isTrue(messageOptions.mapEntry));
    this.nested = nested.filter(({ isMapEntry }) => !isMapEntry);
  }

  /** Most messages are never needed by a process, so each is read when it is. */
  get fields(): readonly Field[] {
    this.#fields ??= this.#values.parts(message.field).map((each) => this.#field(each));
    return this.#fields;
  }

  field(number: number): Field | undefined {
    this.#byNumber ??= new Map(this.fields.map((each) => [each.number, each]));
    return this.#byNumber.get(number);
  }

  #field(its: DescriptorValues): Field {
    const name = camelCase(its.text(field.name));
    const type = this.#type(its);
    const isRepeated = its.number(field.label) === repeated;
    const isMap = type.kind === 'message' && this.#file.message(type.schema.typeName).isMapEntry;
    if (isRepeated && wireTypeOf(type) !== wireType.counted) {
      throw new Error(`${this.typeName}.${name} is a list of numbers, which nothing here reads yet; add what does`);
    }
    const isOptional = its.isTrue(field.optional); // for the compiler, a choice with one option
    const oneof = isOptional ? undefined : this.#values.parts(message.oneof)[its.number(field.oneof) ?? -1];
    return {
      number: its.number(field.number) ?? 0,
      name,
      type,
      wireType: wireTypeOf(type),
      isList: isRepeated && !isMap,
      isMap,
      oneof: oneof && camelCase(oneof.text(oneofs.name)),
      isOptional: isOptional || oneof !== undefined || type.kind === 'message' || type.kind === 'wrapper',
      initial: initialOf(type),
      isSecret: its.parts(field.options).some((options) => options.isTrue(fieldOptions.secret)),
    };
  }

  #type(its: DescriptorValues): FieldType {
    const type = its.number(field.type) ?? 0;
    const typeName = withoutDot(its.text(field.typeName));
    if (type === enumType) return { kind: 'enum', names: () => this.#file.enumNames(typeName) };
    if (type === messageType) {
      const kind = /^google\.protobuf\.\w+Value$/.test(typeName) ? 'wrapper' : 'message';
      return { kind, schema: this.#file.message(typeName) };
    }
    const scalar = scalarTypes[type];
    if (scalar) return { kind: 'scalar', scalar };
    throw new Error(`${this.typeName} has a field of type ${type}, which nothing here reads yet; add what does`);
  }
}

function wireTypeOf(type: FieldType): number {
  if (type.kind === 'enum') return wireType.varint;
  if (type.kind !== 'scalar' || type.scalar === 'string') return wireType.counted;
  return type.scalar === 'double' ? wireType.eightBytes : wireType.varint;
}

function initialOf(type: FieldType): Field['initial'] {
  if (type.kind !== 'scalar') return 0;
  if (type.scalar === 'string') return '';
  if (type.scalar === 'bool') return false;
  return type.scalar === 'int64' || type.scalar === 'uint64' ? 0n : 0;
}

/** A full name begins with a dot. */
function withoutDot(typeName: string): string {
  return typeName.slice(1);
}

function camelCase(name: string): string {
  return name.replace(/_+(.)/g, (_, letter: string) => letter.toUpperCase());
}

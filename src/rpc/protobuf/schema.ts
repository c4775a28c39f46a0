/** What all messages have in common. */
export interface Message<Name extends string = string> {
  readonly $typeName: Name;
  /** The numbers of fields that came with it although its schema has none of them. */
  $unknown?: number[];
}

/** A message as a plain object, to be sent: what is left out has its default. */
export type MessageInit<T extends Message> = {
  [P in keyof T as P extends '$typeName' | '$unknown' ? never : P]?: FieldInit<T[P]>;
} & {
  /** Fields that are encoded already. */
  $encoded?: Uint8Array;
};

type FieldInit<F> = F extends Message
  ? MessageInit<F>
  : F extends readonly (infer Item)[]
    ? readonly FieldInit<Item>[]
    : F extends { case: infer Case extends string; value: infer Value }
      ? { case: Case; value: FieldInit<Value> }
      : F;

export type ScalarType = 'bool' | 'double' | 'int32' | 'int64' | 'string' | 'uint32' | 'uint64';

/** The value of a field, of an item of a list, or of a map's values. */
export type FieldType =
  | { readonly kind: 'scalar'; readonly scalar: ScalarType }
  | { readonly kind: 'enum'; readonly names: () => ReadonlyMap<number, string> }
  | { readonly kind: 'message'; readonly schema: MessageSchema }
  /** A message with nothing but a `value`, which stands for it: its absence is what it adds. */
  | { readonly kind: 'wrapper'; readonly schema: MessageSchema };

export interface Field {
  readonly number: number;
  readonly name: string;
  readonly type: FieldType;
  readonly wireType: number;
  readonly isList: boolean;
  /** Keys and values are texts in all our maps. */
  readonly isMap: boolean;
  /** The choice of which it is one: `{ case: name, value }`. */
  readonly oneof: string | undefined;
  /** Whether "not there" is something else than `initial`. */
  readonly isOptional: boolean;
  /** What a number, text or the like is that was left out. */
  readonly initial: '' | false | 0 | 0n;
  /** Must not be told to anybody. */
  readonly isSecret: boolean;
}

export interface MessageSchema<T extends Message = Message> {
  readonly typeName: T['$typeName'];
  readonly fields: readonly Field[];
  field(number: number): Field | undefined;
  /** Says what its messages are in TypeScript. Never there. */
  readonly $shape?: T;
}

export type MessageShape<S extends MessageSchema> = S extends MessageSchema<infer T> ? T : never;
export type MessageInitShape<S extends MessageSchema> = S extends MessageSchema<infer T> ? MessageInit<T> : never;

export type MethodKind = 'unary' | 'server_streaming';

export interface MethodSchema {
  readonly name: string;
  /** As its function is named. */
  readonly localName: string;
  readonly service: string;
  readonly methodKind: MethodKind;
  readonly input: MessageSchema;
  readonly output: MessageSchema;
}

type MethodShape = Pick<MethodSchema, 'methodKind' | 'input' | 'output'>;

export interface ServiceSchema<
  Methods extends Readonly<Record<string, MethodShape>> = Readonly<Record<string, MethodShape>>,
> {
  readonly typeName: string;
  readonly methods: readonly MethodSchema[];
  /** Says what its methods are in TypeScript. Never there. */
  readonly $methods?: Methods;
}

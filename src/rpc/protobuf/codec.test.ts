import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  create,
  type DescField,
  type DescMessage,
  fromBinary,
  getOption,
  ScalarType,
  toBinary,
} from '@bufbuild/protobuf';
import { extDesc, fileDesc, type GenExtension, type GenFile } from '@bufbuild/protobuf/codegenv2';
import {
  type FieldOptions,
  file_google_protobuf_descriptor,
  file_google_protobuf_timestamp,
  file_google_protobuf_wrappers,
  isWrapperDesc,
} from '@bufbuild/protobuf/wkt';
import * as fc from 'fast-check';
import { file_csi_v1_csi } from '../gen/csi/v1/csi_pb.ts';
import { file_grpc_health_v1_health } from '../gen/grpc/health/v1/health_pb.ts';
import { file_lvmd_lvmd } from '../gen/lvmd/lvmd_pb.ts';
import { file_moorage_v1_engine } from '../gen/moorage/v1/engine_pb.ts';
import { file_pluginregistration_v1_registration } from '../gen/pluginregistration/v1/registration_pb.ts';
import { decode } from './decode.ts';
import { encode } from './encode.ts';
import type { MessageSchema } from './schema.ts';
import { Malformed } from './wire-reader.ts';

const ours = {
  'csi/v1/csi': file_csi_v1_csi,
  'grpc/health/v1/health': file_grpc_health_v1_health,
  'lvmd/lvmd': file_lvmd_lvmd,
  'moorage/v1/engine': file_moorage_v1_engine,
  'pluginregistration/v1/registration': file_pluginregistration_v1_registration,
};

/** The same file, as Protobuf's own library sees it. */
function theirs(name: string): GenFile {
  const source = readFileSync(join(import.meta.dirname, '..', 'gen', `${name}_pb.ts`), 'utf8');
  const [, base64 = ''] = /fileDesc\("([^"]+)"/.exec(source) ?? [];
  const imports = [file_google_protobuf_descriptor, file_google_protobuf_timestamp, file_google_protobuf_wrappers];
  return fileDesc(base64, imports);
}

function withNested(messages: readonly DescMessage[]): readonly DescMessage[] {
  return messages.flatMap((message) => [message, ...withNested(message.nestedMessages)]);
}

const pairs = Object.entries(ours).flatMap(([name, file]) =>
  withNested(theirs(name).messages).map((their) => ({ their, our: file.message(their.typeName) as MessageSchema })),
);

const text = fc.string({ unit: fc.constantFrom('a', '\0', 'ä', '€', '😀', '\ufeff'), maxLength: 5 });
const scalars: Partial<Record<ScalarType, fc.Arbitrary<unknown>>> = {
  [ScalarType.STRING]: text,
  [ScalarType.BOOL]: fc.boolean(),
  [ScalarType.DOUBLE]: fc.oneof(fc.double(), fc.constantFrom(0, -0)),
  [ScalarType.INT32]: fc.integer(),
  [ScalarType.UINT32]: fc.oneof(fc.integer({ min: 0, max: 2 ** 32 - 1 }), fc.nat(200)),
  [ScalarType.INT64]: fc.oneof(
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    fc.bigInt({ min: -200n, max: 200n }),
  ),
  [ScalarType.UINT64]: fc.oneof(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), fc.bigInt({ min: 0n, max: 200n })),
};

function scalar(type: ScalarType): fc.Arbitrary<unknown> {
  const arbitrary = scalars[type];
  assert.ok(arbitrary, `no values for ${ScalarType[type]}`);
  return arbitrary;
}

function anyOf(field: DescField): fc.Arbitrary<unknown> {
  if (field.fieldKind === 'map') return fc.dictionary(text, text, { maxKeys: 3, noNullPrototype: true });
  if (field.fieldKind === 'list') {
    assert.notEqual(field.listKind, 'enum');
    const item: fc.Arbitrary<unknown> = field.listKind === 'message' ? anyMessage(field.message) : text;
    return fc.array(item, { maxLength: 3 });
  }
  if (field.fieldKind === 'enum') return fc.integer({ min: -2, max: 300 });
  if (field.fieldKind === 'scalar') return scalar(field.scalar);
  return isWrapperDesc(field.message) ? scalar(field.message.fields[0].scalar) : anyMessage(field.message);
}

/** Messages as plain objects, any field of which may be missing. */
function anyMessage(desc: DescMessage): fc.Arbitrary<Record<string, unknown>> {
  const members = desc.members.map((member): readonly [string, fc.Arbitrary<unknown>] => {
    if (member.kind === 'field') return [member.localName, anyOf(member)];
    const choices = member.fields.map((field) => anyOf(field).map((value) => ({ case: field.localName, value })));
    return [member.localName, fc.oneof(...choices)];
  });
  return fc.record(Object.fromEntries(members), { requiredKeys: [], noNullPrototype: true });
}

/** Two messages are the same if they are as plain objects. */
const plain = (message: object) => structuredClone(message);

test('all messages of all services are there', () => {
  assert.ok(pairs.length > 100, `${pairs.length} messages`);
  for (const { their, our } of pairs) {
    const names = our.fields.map(({ number, name }) => [number, name]);
    assert.deepEqual(
      names,
      their.fields.map(({ number, localName }) => [number, localName]),
      their.typeName,
    );
  }
});

test('secrets are known as such, and nothing else is', () => {
  const secret = extDesc(theirs('csi/v1/csi'), 0) as GenExtension<FieldOptions, boolean>;
  assert.ok(pairs.some(({ our }) => our.fields.some(({ isSecret }) => isSecret)));
  const mistaken = pairs.flatMap(({ their, our }) =>
    their.fields.filter((field) => getOption(field, secret) !== (our.field(field.number)?.isSecret ?? false)),
  );
  assert.deepEqual(mistaken, []);
});

test("whatever a message holds, Protobuf's library reads what we write, and we read what it writes", () => {
  for (const { their, our } of pairs) {
    fc.assert(
      fc.property(anyMessage(their), (init) => {
        const message = create(their, init);
        assert.deepEqual(plain(fromBinary(their, encode(our, init))), plain(message), their.typeName);
        assert.deepEqual(plain(decode(our, toBinary(their, message))), plain(message), their.typeName);
      }),
      { numRuns: 20 },
    );
  }
});

test('a message that comes in two parts is one', () => {
  for (const { their, our } of pairs) {
    fc.assert(
      fc.property(anyMessage(their), anyMessage(their), (first, second) => {
        const bytes = Buffer.concat([encode(our, first), encode(our, second)]);
        assert.deepEqual(plain(decode(our, bytes)), plain(fromBinary(their, bytes)), their.typeName);
      }),
      { numRuns: 10 },
    );
  }
});

test('the names of all values of enums are known', () => {
  const named = pairs.flatMap(({ their, our }) =>
    their.fields.flatMap((field) =>
      field.fieldKind === 'enum' ? [{ field, type: our.field(field.number)?.type }] : [],
    ),
  );
  assert.ok(named.length > 3);
  for (const { field, type } of named) {
    const names = type?.kind === 'enum' ? type.names() : [];
    assert.deepEqual(
      [...names],
      field.enum.values.map(({ number, name }) => [number, name]),
    );
  }
});

test('no message can hold itself, so none is deeper than its schema', () => {
  const inside = (schema: MessageSchema, outer: readonly string[]): void => {
    assert.ok(!outer.includes(schema.typeName), `${schema.typeName} holds itself; bound how deep it is read`);
    for (const { type } of schema.fields) {
      if (type.kind === 'message') inside(type.schema, [...outer, schema.typeName]);
    }
  };
  for (const { our } of pairs) inside(our, []);
});

test('bytes that were cut, changed or made up are refused, or are another message', () => {
  for (const { their, our } of pairs) {
    const changes = fc.array(fc.tuple(fc.nat(200), fc.nat(255)), { maxLength: 4 });
    fc.assert(
      fc.property(anyMessage(their), changes, fc.nat(200), (init, changed, end) => {
        const bytes = Uint8Array.from(toBinary(their, create(their, init)).subarray(0, end));
        for (const [at, byte] of changed) if (at < bytes.length) bytes[at] = byte;
        try {
          encode(our, decode(our, bytes));
        } catch (error) {
          assert.ok(error instanceof Malformed, String(error));
        }
      }),
      { numRuns: 20 },
    );
  }
});

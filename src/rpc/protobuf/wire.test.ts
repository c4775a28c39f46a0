import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GetPluginInfoResponseSchema, NodeGetInfoResponseSchema } from '../gen/csi/v1/csi_pb.ts';
import { CreateLVRequestSchema } from '../gen/lvmd/lvmd_pb.ts';
import { decode } from './decode.ts';
import { encode } from './encode.ts';
import { Malformed, wireType } from './wire-reader.ts';
import { WireWriter } from './wire-writer.ts';

const isMalformed = (...bytes: readonly number[]) =>
  assert.throws(() => decode(GetPluginInfoResponseSchema, Buffer.from(bytes)), Malformed, String(bytes));
const nameTag = 8 + wireType.counted;

test('bytes that no encoder makes are refused', () => {
  isMalformed(nameTag); // without its text
  isMalformed(nameTag, 2, 0x61); // shorter than it says
  isMalformed(nameTag, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x61); // 4 GiB
  isMalformed(nameTag, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x61); // more than there can be
  isMalformed(nameTag, 1, 0xff); // no UTF-8
  isMalformed(nameTag, 3, 0xed, 0xa0, 0x80); // half of a surrogate pair
  isMalformed(0, 0); // a field without a number
  isMalformed(0x58, ...Array.from({ length: 11 }, () => 0x80)); // a number without an end
  isMalformed(0x5b, 0x5c); // a group
  isMalformed(0x5f); // laid out in no known way
});

test('the character that stands for what is no text may be written like any other', () => {
  const { name } = decode(GetPluginInfoResponseSchema, encode(GetPluginInfoResponseSchema, { name: 'a\ufffdb' }));
  assert.equal(name, 'a\ufffdb');
});

test('fields that are not known, or are of another type, are noted and passed over', () => {
  const others = new WireWriter()
    .tag(99, wireType.varint)
    .uint64(2n ** 64n - 1n)
    .tag(98, wireType.eightBytes)
    .double(1)
    .tag(97, wireType.fourBytes)
    .raw(new Uint8Array(4))
    .tag(96, wireType.counted)
    .string('more')
    .tag(1, wireType.varint) // its name, as a number
    .uint32(7);
  const bytes = encode(CreateLVRequestSchema, { name: 'data', sizeBytes: 5n, $encoded: others.finish() });
  const { name, sizeBytes, $unknown } = decode(CreateLVRequestSchema, bytes);
  assert.deepEqual([name, sizeBytes, $unknown], ['data', 5n, [99, 98, 97, 96, 1]]);
});

test('a number that does not fit is refused, not cut', () => {
  const writer = new WireWriter();
  assert.throws(() => writer.uint64(-1n), RangeError);
  assert.throws(() => writer.uint64(2n ** 64n), RangeError);
  assert.throws(() => writer.int64(2n ** 63n), RangeError);
  assert.throws(() => writer.int32(2 ** 31), RangeError);
  assert.throws(() => writer.uint32(-1), RangeError);
  assert.throws(() => writer.uint32(0.5), RangeError);
});

test('any text is a key of a map', () => {
  const manifest = Object.fromEntries(['__proto__', 'constructor', 'toString', ''].map((key) => [key, `its ${key}`]));
  const read = decode(GetPluginInfoResponseSchema, encode(GetPluginInfoResponseSchema, { manifest })).manifest;
  assert.deepEqual(Object.entries(read), Object.entries(manifest));
  assert.equal(Object.getPrototypeOf(read), Object.prototype);
});

test("what one has of a message is nobody else's", () => {
  const bytes = encode(GetPluginInfoResponseSchema, {});
  const [first, second] = [decode(GetPluginInfoResponseSchema, bytes), decode(GetPluginInfoResponseSchema, bytes)];
  first.manifest['changed'] = 'yes';
  assert.deepEqual(second.manifest, {});
});

test('long texts and deep messages have long counts', () => {
  for (const length of [0, 41, 42, 43, 126, 127, 128, 16_383, 16_384, 3_000_000]) {
    const segments = { zone: '€'.repeat(length) };
    const init = { nodeId: 'x'.repeat(length), accessibleTopology: { segments } };
    const read = decode(NodeGetInfoResponseSchema, encode(NodeGetInfoResponseSchema, init));
    assert.ok(read.nodeId === init.nodeId && read.accessibleTopology?.segments['zone'] === segments.zone, `${length}`);
  }
});

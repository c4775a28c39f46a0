import * as v from 'valibot';
import { InvalidInput } from '../../base/errors.ts';

const checkpoint = v.pipe(v.string(), v.regex(/^[A-Za-z0-9-]{1,64}$/));
const bytes = v.pipe(v.number(), v.safeInteger(), v.minValue(0));

/** What the target sends. */
const targetMessage = v.variant('type', [
  v.object({
    type: v.literal('pull'),
    kind: v.picklist(['next', 'last', 'whole']),
    position: v.object({
      complete: v.optional(checkpoint),
      partial: v.optional(v.object({ checkpoint, offset: bytes, isFirst: v.boolean() })),
    }),
    bytesPerSecond: v.optional(v.pipe(v.number(), v.minValue(1))),
  }),
  /** Everything before this offset is on the disk of the target. */
  v.object({ type: v.literal('reached'), offset: bytes }),
  /** All of the round is on its disk, and verified if it is the last one. */
  v.object({ type: v.literal('done') }),
  v.object({ type: v.literal('alive') }),
]);

/** What the source sends. */
const sourceMessage = v.variant('type', [
  v.object({
    type: v.literal('begin'),
    checkpoint,
    base: v.optional(checkpoint),
    fromOffset: bytes,
    sizeBytes: bytes,
    /** What may have changed from there on. */
    changedBytes: bytes,
    /** The tags that describe the contents of the volume. */
    tags: v.array(v.string()),
  }),
  v.object({ type: v.literal('end'), sha256: v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/)) }),
  v.object({ type: v.literal('failed'), message: v.string() }),
  /** The certificate of the target is not the expected one. */
  v.object({ type: v.literal('refused') }),
  v.object({ type: v.literal('alive') }),
]);

export type TargetMessage = v.InferOutput<typeof targetMessage>;
export type SourceMessage = v.InferOutput<typeof sourceMessage>;
export type Pull = Extract<TargetMessage, { type: 'pull' }>;
export type Begin = Extract<SourceMessage, { type: 'begin' }>;

export const parseTargetMessage = (text: Uint8Array): TargetMessage => parse(targetMessage, text);
export const parseSourceMessage = (text: Uint8Array): SourceMessage => parse(sourceMessage, text);

function parse<Schema extends v.GenericSchema>(schema: Schema, text: Uint8Array): v.InferOutput<Schema> {
  try {
    return v.parse(schema, JSON.parse(Buffer.from(text).toString()));
  } catch (cause) {
    throw new InvalidInput(
      'the other end of the move sent an invalid message; use the same version of Moorage on both nodes',
      { cause },
    );
  }
}

import { positionKey, tagValue } from '../names-and-tags.ts';

/** Letters, digits and dashes. */
export type CheckpointId = string;

/** How much of its source a copy has: all of one checkpoint, or parts of another one on top of that. */
export interface Position {
  readonly complete?: CheckpointId;
  readonly partial?: {
    readonly checkpoint: CheckpointId;
    /** What changed before this offset is on the disk. */
    readonly offset: number;
    /** Nothing else was ever written to the copy. */
    readonly isFirst: boolean;
  };
}

const form = /^([A-Za-z0-9-]*):([A-Za-z0-9-]*):(\d{1,16})(:first)?$/;

/**
 * The position is recorded on the copy itself, before a round writes to it. So it is right after a crash of either side,
 * and gone if the copy is created again.
 */
export function positionTag({ complete, partial }: Position): string {
  const first = partial?.isFirst ? ':first' : '';
  return `${positionKey}=${complete ?? ''}:${partial?.checkpoint ?? ''}:${partial?.offset ?? 0}${first}`;
}

/** A new volume has no data. What a tag says that cannot be parsed is unknown, so everything is copied over it. */
export function positionIn(tags: readonly string[]): Position {
  const value = tagValue(tags, positionKey);
  if (value === undefined) return {};
  const [, complete, checkpoint, offset, first] = form.exec(value) ?? [];
  const partial = { checkpoint: checkpoint || 'unknown', offset: Number(offset ?? 0), isFirst: first !== undefined };
  return { ...(complete && { complete }), ...((checkpoint || !complete) && { partial }) };
}

import type { Message } from '@bufbuild/protobuf';
import { InvalidInput } from '../base/errors.ts';
import { createdTag } from '../engine/tags.ts';
import { checkAddedTags, checkNewTags } from '../engine/volume-id.ts';

/** Large enough for anything that we want to refuse in our own words. */
export const maxRequestBytes = 16 * 1024 * 1024;

/** All tags of all volumes live in the volume group's metadata, which every LVM command reads and writes. */
const maxTags = 64;
const maxTagBytes = 16 * 1024;
const bytesPerGb = 1024n ** 3n;

/** What a caller asks for in words that we do not know might matter to it: better no volume than the wrong one. */
export function refuseUnknownFields(request: Message): void {
  const [unknown] = request.$unknown ?? [];
  if (!unknown) return;
  throw new InvalidInput(
    `the request has a field ${unknown.no}, which is not known here; update Moorage, or leave it out`,
  );
}

export function checkDeviceClass(name: string): void {
  if (/^[-A-Za-z0-9_.]{0,63}$/.test(name)) return;
  throw new InvalidInput(
    `device class ${quoted(name)} cannot be; names have at most 63 letters, digits, "-", "_" and "."`,
  );
}

export function checkOptionClass(name: string): void {
  if (/^[-A-Za-z0-9_.]{0,63}$/.test(name)) return;
  throw new InvalidInput(
    `lvcreate option class ${quoted(name)} cannot be; names have at most 63 letters, digits, "-", "_" and "."`,
  );
}

/** The tags of a new volume: each once, and without the one that the engine sets itself, which a client of TopoLVM's lvmd has to. */
export function requestedTags(tags: readonly string[]): readonly string[] {
  mustNotBeTooMany(tags);
  checkNewTags(tags);
  return withoutCreated(tags);
}

/** The same for tags that a volume is to get. */
export function addedTags(tags: readonly string[]): readonly string[] {
  mustNotBeTooMany(tags);
  checkAddedTags(tags);
  return withoutCreated(tags);
}

function withoutCreated(tags: readonly string[]): readonly string[] {
  return [...new Set(tags)].filter((tag) => tag !== createdTag);
}

function mustNotBeTooMany(tags: readonly string[]): void {
  const bytes = tags.reduce((sum, tag) => sum + tag.length, 0);
  if (tags.length > maxTags || bytes > maxTagBytes) {
    throw new InvalidInput(
      `${tags.length} tags with ${bytes} characters are too many; a volume has at most ${maxTags} with ${maxTagBytes}`,
    );
  }
}

interface Sizes {
  readonly sizeBytes: bigint;
  readonly sizeGb: bigint;
}

/** Clients up to 0.36.4 count in GiB; one that knows bytes means those. */
export function requestedBytes(sizes: Sizes): bigint {
  const bytes = requestedBytesIfAny(sizes);
  if (bytes === undefined) throw new InvalidInput('size_bytes is missing from the request; ask for at least one byte');
  return bytes;
}

export function requestedBytesIfAny({ sizeBytes, sizeGb }: Sizes): bigint | undefined {
  if (sizeBytes < 0n) throw new InvalidInput(`size_bytes cannot be ${sizeBytes}; ask for at least one byte`);
  if (sizeBytes > 0n) return sizeBytes;
  return sizeGb > 0n ? sizeGb * bytesPerGb : undefined;
}

function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 128));
}

import type { Message } from '@bufbuild/protobuf';
import { InvalidInput } from '../base/errors.ts';
import type { ErasePolicy } from '../engine/config/device-classes.ts';
import { parsePolicy } from '../engine/erase/erase-policy.ts';
import { checkAddedTags, checkNewTags, createdTag } from '../engine/names-and-tags.ts';

/** Large enough that invalid requests arrive and get a clear error. */
export const maxRequestBytes = 16 * 1024 * 1024;

/** The tags of all volumes are in the volume group's metadata, which every LVM command reads and writes. */
const maxTags = 64;
const maxTagBytes = 16 * 1024;
const bytesPerGb = 1024n ** 3n;

/** An unknown field may matter to the caller: no volume is better than a wrong one. */
export function refuseUnknownFields(request: Message): void {
  const [unknown] = request.$unknown ?? [];
  if (!unknown) return;
  throw new InvalidInput(`unknown field ${unknown.no} in the request; update Moorage, or leave the field out`);
}

export function checkDeviceClass(name: string): void {
  if (/^[-A-Za-z0-9_.]{0,63}$/.test(name)) return;
  throw new InvalidInput(`invalid device class ${quoted(name)}: use at most 63 letters, digits, "-", "_" and "."`);
}

export function checkOptionClass(name: string): void {
  if (/^[-A-Za-z0-9_.]{0,63}$/.test(name)) return;
  throw new InvalidInput(
    `invalid lvcreate option class ${quoted(name)}: use at most 63 letters, digits, "-", "_" and "."`,
  );
}

/** The tags of a new volume, each once. Without the created tag, which the engine sets itself. */
export function requestedTags(tags: readonly string[]): readonly string[] {
  mustNotBeTooMany(tags);
  checkNewTags(tags);
  return withoutCreated(tags);
}

/** The same for tags that are added to a volume. */
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
      `too many tags: ${tags.length} with ${bytes} characters; use at most ${maxTags} with ${maxTagBytes}`,
    );
  }
}

export function requestedPolicy(text: string): ErasePolicy {
  const policy = parsePolicy(text);
  if (policy) return policy;
  throw new InvalidInput(`invalid policy ${quoted(text)}: use discard, zero, shred or shred:<passes>`);
}

interface Sizes {
  readonly sizeBytes: bigint;
  readonly sizeGb: bigint;
}

/** Clients up to 0.36.4 send GiB. If a client sends bytes, they take precedence. */
export function requestedBytes(sizes: Sizes): bigint {
  const bytes = requestedBytesIfAny(sizes);
  if (bytes === undefined) throw new InvalidInput('size_bytes is missing from the request; request at least one byte');
  return bytes;
}

export function requestedBytesIfAny({ sizeBytes, sizeGb }: Sizes): bigint | undefined {
  if (sizeBytes < 0n) throw new InvalidInput(`invalid size_bytes ${sizeBytes}: request at least one byte`);
  if (sizeBytes > 0n) return sizeBytes;
  return sizeGb > 0n ? sizeGb * bytesPerGb : undefined;
}

function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 128));
}

import { createHash } from 'node:crypto';
import { luks2, recordTagPrefix } from '../api/names.ts';
import type { ContentSource } from '../csi/controller/volume-store.ts';

/**
 * What CSI must know about a volume besides its data, and what Kubernetes would store elsewhere. It is in the tags of the
 * volume itself, so it exists exactly as long as the volume.
 */
export interface VolumeRecord {
  readonly kind: 'volume' | 'snapshot';
  readonly name: string;
  /** As requested: a repeated request must be the same. */
  readonly deviceClass: string;
  readonly lvcreateOptionClass: string;
  readonly isEncrypted: boolean;
  readonly sizeBytes: bigint;
  readonly source?: ContentSource;
  readonly createdAt: Date;
}

/** The id is derived from the name, so a call that is retried after a crash finds what the first one started. */
export function idFor(kind: VolumeRecord['kind'], name: string): string {
  const bytes = createHash('sha256').update(`${kind}/${name}`).digest().subarray(0, 16);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x80, 6); // version 8: a custom scheme
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

/** Whether it can be the id of a volume with a record; others on the disks must not be touched. */
export function isOurId(id: string): boolean {
  return /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id);
}

export function tagsOf(record: VolumeRecord): readonly string[] {
  const { kind, name, deviceClass, lvcreateOptionClass, isEncrypted, sizeBytes, source, createdAt } = record;
  const facts = {
    [kind]: name,
    class: deviceClass,
    'option-class': lvcreateOptionClass,
    encryption: isEncrypted ? luks2 : '',
    size: String(sizeBytes),
    source: source && `${source.kind}/${source.id}`,
    'created-at': createdAt.toISOString(),
  };
  return Object.entries(facts).flatMap(([key, value]) => (value ? [`${recordTagPrefix}${key}=${escape(value)}`] : []));
}

/** Undefined for a volume that no CSI call created. */
export function recordIn(tags: readonly string[]): VolumeRecord | undefined {
  const ours = tags.filter((tag) => tag.startsWith(recordTagPrefix)).map((tag) => tag.slice(recordTagPrefix.length));
  const facts = new Map(ours.map((tag) => [tag.slice(0, tag.indexOf('=')), unescape(tag.slice(tag.indexOf('=') + 1))]));
  const kind = facts.has('snapshot') ? 'snapshot' : 'volume';
  const name = facts.get(kind);
  if (name === undefined) return undefined;
  const source = sourceIn(facts.get('source'));
  return {
    kind,
    name,
    deviceClass: facts.get('class') ?? '',
    lvcreateOptionClass: facts.get('option-class') ?? '',
    isEncrypted: facts.get('encryption') === luks2,
    sizeBytes: BigInt(facts.get('size') ?? 0),
    ...(source && { source }),
    createdAt: new Date(facts.get('created-at') ?? 0),
  };
}

function sourceIn(text: string | undefined): ContentSource | undefined {
  const [, kind, id] = /^(volume|snapshot)\/(.+)$/.exec(text ?? '') ?? [];
  return id ? { kind: kind as ContentSource['kind'], id } : undefined;
}

/** CSI names may contain any character, tags only some: each byte of the others becomes `#` and two hex digits. */
function escape(text: string): string {
  const hexOf = (character: string) => Buffer.from(character).toString('hex').replaceAll(/../g, '#$&');
  return text.replaceAll(/[^A-Za-z0-9_+./:-]/gu, hexOf);
}

function unescape(text: string): string {
  return text.replaceAll(/(#[0-9a-f]{2})+/g, (bytes) => Buffer.from(bytes.replaceAll('#', ''), 'hex').toString());
}

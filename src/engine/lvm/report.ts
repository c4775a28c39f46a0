import * as v from 'valibot';
import { MoorageError } from '../../base/errors.ts';
import type { PlacedVolume } from '../pool.ts';

/** A volume group as LVM reports it. */
export interface GroupReport {
  readonly uuid: string;
  /** LVM increments it with each change. */
  readonly sequenceNumber: number;
  readonly extentBytes: bigint;
  readonly extents: bigint;
  readonly freeExtents: bigint;
  /** The disks that LVM found. */
  readonly disks: readonly Disk[];
  /** A disk of the group is missing. */
  readonly isPartial: boolean;
  /** Size of the largest metadata area on the disks. */
  readonly metadataAreaBytes: bigint;
  readonly volumes: readonly LogicalVolume[];
}

/** A disk of a volume group. */
export interface Disk {
  /** The current device path in LVM. */
  readonly path: string;
  /** The UUID in its LVM label, without dashes. */
  readonly uuid: string;
}

/** A visible logical volume of any kind; hidden ones are left out. */
export interface LogicalVolume {
  readonly name: string;
  /** Unset for a volume created since LVM was last queried. */
  readonly uuid?: string;
  /** Empty for a volume without a usable device, such as a thin pool. */
  readonly path: string;
  /** Size of its device: for a copy-on-write snapshot that of its origin, not the space it takes. */
  readonly sizeBytes: bigint;
  readonly attr: string;
  readonly active: boolean;
  readonly tags: readonly string[];
  readonly origin: string | undefined;
  /** The thin pool of a thin volume. */
  readonly pool: string | undefined;
  /** Usage of a thin pool. */
  readonly dataPercent: number | undefined;
  readonly metadataPercent: number | undefined;
  /** Number of stripes; undefined if its segments differ. */
  readonly stripes?: number;
}

export function isReadOnly({ attr }: Pick<LogicalVolume, 'attr'>): boolean {
  return attr.charAt(1) !== 'w';
}

/** LVM printed a report that cannot be parsed. */
export class UnreadableReport extends MoorageError {
  readonly code = 'Internal';
}

const groupFields = ['vg_uuid', 'vg_seqno', 'vg_extent_size', 'vg_extent_count', 'vg_free_count'];
const volumeFields = [
  ...['lv_name', 'lv_uuid', 'lv_path', 'lv_size', 'lv_attr', 'lv_active', 'lv_tags'],
  ...['origin', 'origin_size', 'pool_lv', 'data_percent', 'metadata_percent'],
];

/** Reports everything about one volume group in one consistent command. */
export function reportArguments(volumeGroup: string): string[] {
  return [
    'fullreport',
    ...['--reportformat', 'json', '--units', 'b', '--nosuffix'],
    ...['--configreport', 'vg', '-o', groupFields.join(',')],
    ...['--configreport', 'lv', '-o', volumeFields.join(',')],
    ...['--configreport', 'pv', '-o', 'pv_name,pv_uuid,pv_mda_size'],
    ...['--configreport', 'seg', '-o', 'lv_name,stripes'],
    ...['--configreport', 'pvseg', '-o', 'pv_uuid'], // cannot be turned off; one field keeps it small
    volumeGroup,
  ];
}

const placeFields = ['vg_name', 'lv_name', 'lv_size', 'lv_attr', 'lv_tags', 'origin', 'origin_size', 'pool_lv'];

/** Reports the volumes in all groups of the node. */
export const allVolumesArguments: readonly string[] = [
  ...['lvs', '--reportformat', 'json', '--units', 'b', '--nosuffix'],
  ...['-o', placeFields.join(',')],
];

/** Reports only the usage of one thin pool. */
export function thinUsageArguments(volumeGroup: string, pool: string): string[] {
  return ['lvs', '--reportformat', 'json', '-o', 'data_percent,metadata_percent', `${volumeGroup}/${pool}`];
}

/** Reports the numbers of thin volumes in their pools. */
export function thinIdArguments(volumeGroup: string): string[] {
  return ['lvs', '--reportformat', 'json', '-o', 'lv_name,thin_id', volumeGroup];
}

/** Reports the mirrors and parity of one volume. */
export function redundancyArguments(volumeGroup: string, volume: string): string[] {
  return ['lvs', '--reportformat', 'json', '-o', 'segtype,stripes,data_stripes', `${volumeGroup}/${volume}`];
}

const count = v.pipe(
  v.string(),
  v.regex(/^\d+$/),
  v.transform((digits) => BigInt(digits)),
);
const percent = v.pipe(v.string(), v.regex(/^(\d{1,3}(\.\d+)?)?$/), v.transform(numberUnlessEmpty));
const name = v.pipe(v.string(), v.transform(textUnlessEmpty));

const usage = { data_percent: percent, metadata_percent: percent };
const groupSchema = v.object({
  vg_uuid: v.string(),
  vg_seqno: v.pipe(v.string(), v.regex(/^\d{1,15}$/), v.transform(Number)),
  vg_extent_size: count,
  vg_extent_count: count,
  vg_free_count: count,
});
const volumeSchema = v.object({
  lv_name: v.string(),
  lv_uuid: v.pipe(v.string(), v.minLength(1)),
  lv_path: v.string(),
  lv_size: count,
  lv_attr: v.pipe(v.string(), v.minLength(6)),
  lv_active: v.string(),
  lv_tags: v.string(),
  origin: name,
  origin_size: v.union([v.literal(''), count]),
  pool_lv: name,
  ...usage,
});
const fullReportSchema = v.object({
  report: v.tuple([
    v.object({
      vg: v.tuple([groupSchema]),
      pv: v.array(v.object({ pv_name: v.string(), pv_uuid: v.string(), pv_mda_size: count })),
      lv: v.array(volumeSchema),
      seg: v.array(
        v.object({ lv_name: v.string(), stripes: v.pipe(v.string(), v.regex(/^\d{1,5}$/), v.transform(Number)) }),
      ),
    }),
  ]),
});
const usageSchema = v.object({ report: v.tuple([v.object({ lv: v.tuple([v.object(usage)]) })]) });

const placeSchema = v.object({
  vg_name: v.string(),
  ...v.pick(volumeSchema, ['lv_name', 'lv_size', 'lv_attr', 'lv_tags', 'origin', 'origin_size', 'pool_lv']).entries,
});
const allVolumesSchema = v.object({ report: v.tuple([v.object({ lv: v.array(placeSchema) })]) });

const thinIdsSchema = v.object({
  report: v.tuple([v.object({ lv: v.array(v.object({ lv_name: v.string(), thin_id: v.string() })) })]),
});

const redundancySchema = v.object({
  report: v.tuple([v.object({ lv: v.array(v.object({ segtype: v.string(), stripes: count, data_stripes: count })) })]),
});

export function parseReport(json: string): GroupReport {
  const [{ vg, pv, lv, seg }] = parse(fullReportSchema, json).report;
  const found = pv.filter((row) => row.pv_name.startsWith('/')); // a missing disk has no path
  const stripesOf = new Map<string, Set<number>>();
  for (const { lv_name: name, stripes } of seg) stripesOf.set(name, (stripesOf.get(name) ?? new Set()).add(stripes));
  return {
    uuid: vg[0].vg_uuid,
    sequenceNumber: vg[0].vg_seqno,
    extentBytes: vg[0].vg_extent_size,
    extents: vg[0].vg_extent_count,
    freeExtents: vg[0].vg_free_count,
    disks: found.map((row) => ({ path: row.pv_name, uuid: row.pv_uuid.replaceAll('-', '') })),
    isPartial: found.length < pv.length,
    metadataAreaBytes: pv.reduce((most, { pv_mda_size: size }) => (size > most ? size : most), 0n),
    volumes: lv
      .filter((row) => !row.lv_name.startsWith('['))
      .map((row) => ({ ...toVolume(row), ...onlyStripes(stripesOf.get(row.lv_name)) })),
  };
}

export function parseThinUsage(json: string): Pick<LogicalVolume, 'dataPercent' | 'metadataPercent'> {
  const [{ lv }] = parse(usageSchema, json).report;
  return { dataPercent: lv[0].data_percent, metadataPercent: lv[0].metadata_percent };
}

export function parseAllVolumes(json: string): PlacedVolume[] {
  const [{ lv }] = parse(allVolumesSchema, json).report;
  return lv.map((row) => ({
    id: row.lv_name,
    sizeBytes: deviceBytes(row),
    tags: tagsIn(row.lv_tags),
    readOnly: isReadOnly({ attr: row.lv_attr }),
    volumeGroup: row.vg_name,
    ...(row.pool_lv && { thinPool: row.pool_lv }),
  }));
}

/** By name; numbers are unique within one pool. */
export function parseThinIds(json: string): ReadonlyMap<string, number> {
  const [{ lv }] = parse(thinIdsSchema, json).report;
  return new Map(lv.filter((row) => row.thin_id !== '').map((row) => [row.lv_name, Number(row.thin_id)]));
}

/** Maps extents of the volume to extents on the disks: each mirror holds all data, and parity adds to it. */
export function parseRedundancy(json: string): (extents: bigint) => bigint {
  const [{ lv }] = parse(redundancySchema, json).report;
  return (extents) => {
    const taken = lv.map(({ segtype, stripes, data_stripes: dataStripes }) => {
      if (segtype === 'raid1' || segtype === 'mirror') return extents * stripes;
      return dataStripes === 0n ? extents : (extents * stripes + dataStripes - 1n) / dataStripes;
    });
    return taken.reduce((most, one) => (one > most ? one : most), extents);
  };
}

function onlyStripes(found: ReadonlySet<number> = new Set()): Pick<LogicalVolume, 'stripes'> {
  const [stripes] = found;
  return stripes !== undefined && found.size === 1 ? { stripes } : {};
}

/** LVM reports the space that a copy-on-write snapshot takes; its device has the size of its origin. */
function deviceBytes(row: Pick<v.InferOutput<typeof volumeSchema>, 'lv_size' | 'origin' | 'origin_size' | 'pool_lv'>) {
  const isCopyOnWrite = row.origin !== undefined && row.pool_lv === undefined;
  return isCopyOnWrite && row.origin_size !== '' ? row.origin_size : row.lv_size;
}

function toVolume(row: v.InferOutput<typeof volumeSchema>): LogicalVolume {
  return {
    name: row.lv_name,
    uuid: row.lv_uuid,
    path: row.lv_path,
    sizeBytes: deviceBytes(row),
    attr: row.lv_attr,
    active: row.lv_active === 'active',
    tags: tagsIn(row.lv_tags),
    origin: row.origin,
    pool: row.pool_lv,
    dataPercent: row.data_percent,
    metadataPercent: row.metadata_percent,
  };
}

function tagsIn(text: string): string[] {
  return text === '' ? [] : text.split(',');
}

function parse<Schema extends v.GenericSchema>(schema: Schema, json: string): v.InferOutput<Schema> {
  const result = v.safeParse(schema, parseJson(json));
  if (result.success) return result.output;
  const [issue] = result.issues;
  throw new UnreadableReport(
    `cannot read the lvm report: ${v.getDotPath(issue) ?? 'top level'}: ${issue.message}; check that lvm2 is 2.02.163 or later`,
  );
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new UnreadableReport('cannot read the lvm report: it is not JSON; check that lvm2 is 2.02.163 or later', {
      cause,
    });
  }
}

function numberUnlessEmpty(text: string): number | undefined {
  return text === '' ? undefined : Number(text);
}

function textUnlessEmpty(text: string): string | undefined {
  return text === '' ? undefined : text;
}

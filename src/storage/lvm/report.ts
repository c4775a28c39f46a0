import * as v from 'valibot';
import { MoorageError } from '../../base/errors.ts';
import type { Volume, VolumeId } from '../pool.ts';

/** A volume group as LVM reports it. */
export interface VolumeGroup {
  readonly extentBytes: bigint;
  readonly extents: bigint;
  readonly freeExtents: bigint;
  /** Thick volumes that can be used; thin ones, thin pools and LVM's own parts are left out. */
  readonly volumes: readonly Volume[];
  /** Those of the volumes that have no device now. */
  readonly inactive: readonly VolumeId[];
}

/** LVM answered something that we do not understand. */
export class UnreadableReport extends MoorageError {
  readonly code = 'Internal';
}

const groupFields = ['vg_extent_size', 'vg_extent_count', 'vg_free_count'] as const;
const volumeFields = ['lv_name', 'lv_path', 'lv_size', 'lv_attr', 'lv_active', 'lv_tags'] as const;

/** Everything about one volume group, in one command and at one moment. */
export function reportArguments(volumeGroup: string): string[] {
  return [
    'fullreport',
    ...['--reportformat', 'json', '--units', 'b', '--nosuffix'],
    ...['--configreport', 'vg', '-o', groupFields.join(',')],
    ...['--configreport', 'lv', '-o', volumeFields.join(',')],
    // These three come in any case; one field each keeps them small.
    ...['--configreport', 'pv', '-o', 'pv_uuid'],
    ...['--configreport', 'seg', '-o', 'lv_uuid'],
    ...['--configreport', 'pvseg', '-o', 'pv_uuid'],
    volumeGroup,
  ];
}

const count = v.pipe(
  v.string(),
  v.regex(/^\d+$/),
  v.transform((digits) => BigInt(digits)),
);
const reportSchema = v.object({
  report: v.tuple([
    v.object({
      vg: v.tuple([v.object({ vg_extent_size: count, vg_extent_count: count, vg_free_count: count })]),
      lv: v.array(
        v.object({
          lv_name: v.string(),
          lv_path: v.string(),
          lv_size: count,
          lv_attr: v.pipe(v.string(), v.minLength(6)),
          lv_active: v.string(),
          lv_tags: v.string(),
        }),
      ),
    }),
  ]),
});

export function parseReport(json: string): VolumeGroup {
  const result = v.safeParse(reportSchema, parseJson(json));
  if (!result.success) {
    const [issue] = result.issues;
    throw new UnreadableReport(
      `lvm fullreport: ${v.getDotPath(issue) ?? 'the report'}: ${issue.message}; check that lvm2 is 2.02.163 or later`,
    );
  }
  const [{ vg, lv }] = result.output.report;
  const rows = lv.filter((row) => isThick(row.lv_attr) && row.lv_path !== '');
  return {
    extentBytes: vg[0].vg_extent_size,
    extents: vg[0].vg_extent_count,
    freeExtents: vg[0].vg_free_count,
    volumes: rows.map((row) => ({
      id: row.lv_name,
      sizeBytes: row.lv_size,
      devicePath: row.lv_path,
      tags: row.lv_tags === '' ? [] : row.lv_tags.split(','),
      readOnly: row.lv_attr.charAt(1) !== 'w',
      attr: row.lv_attr,
    })),
    inactive: rows.filter((row) => row.lv_active !== 'active').map((row) => row.lv_name),
  };
}

function isThick(attributes: string): boolean {
  return !['t', 'V'].includes(attributes.charAt(0)); // a thin pool, a thin volume
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new UnreadableReport('lvm fullreport did not print JSON; check that lvm2 is 2.02.163 or later', { cause });
  }
}

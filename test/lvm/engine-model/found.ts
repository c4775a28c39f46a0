import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { erasingTag } from '../../../src/engine/names-and-tags.ts';
import type { VolumeId } from '../../../src/engine/pool.ts';
import { command } from '../../../worlds/lvm/inside.ts';

/** The real state of a volume, read without the engine. */
export interface Found {
  readonly id: VolumeId;
  readonly sizeBytes: bigint;
  readonly tags: readonly string[];
}

interface Row {
  readonly lv_name: string;
  readonly lv_size: string;
  readonly origin_size: string;
  readonly lv_tags: string;
  readonly lv_attr: string;
  readonly pool_lv: string;
}

/** The thick volumes of a group, or the volumes of one of its thin pools, without those being erased. */
export async function foundInGroup(group: string, thinPool: string | undefined): Promise<Found[]> {
  const fields = 'lv_name,lv_size,origin_size,lv_tags,lv_attr,pool_lv';
  const json = await command('lvs', '--reportformat', 'json', '--units', 'b', '--nosuffix', '-o', fields, group);
  const { report } = JSON.parse(json) as { report: { lv: Row[] }[] };
  return (report[0]?.lv ?? [])
    .filter(({ lv_attr, pool_lv }) => (thinPool ? pool_lv === thinPool : !/^[tV]/.test(lv_attr)))
    .map(({ lv_name, lv_size, origin_size, lv_tags, lv_attr }) => ({
      id: lv_name,
      sizeBytes: BigInt(lv_attr.startsWith('s') ? origin_size : lv_size), // lv_size of a snapshot is the size of its store
      tags: lv_tags === '' ? [] : lv_tags.split(','),
    }))
    .filter(({ tags }) => !tags.includes(erasingTag));
}

/** Volumes of a file pool's directory. */
export async function foundInDirectory(directory: string): Promise<Found[]> {
  const names = (await readdir(directory)).filter((name) => name.endsWith('.img'));
  return Promise.all(
    names.map(async (name) => {
      const id = name.slice(0, -'.img'.length);
      const label = JSON.parse(await readFile(join(directory, `${id}.json`), 'utf8')) as { tags: string[] };
      return { id, sizeBytes: (await stat(join(directory, name), { bigint: true })).size, tags: label.tags };
    }),
  );
}

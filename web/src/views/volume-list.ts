import type { PageVolume } from '../../../src/plugin/page/model.ts';
import type { Choice } from '../parts/filter-bar.tsx';
import type { Sort } from '../parts/virtual-grid.tsx';
import { naturalKey } from '../parts/words.ts';

export interface VolumeFilter {
  /** Words that must all be in the row. */
  readonly text: string;
  readonly health: string;
  readonly namespace: string;
  readonly node: string;
  readonly deviceClass: string;
}

/** A row with what searching and sorting need, worked out once: there may be tens of thousands. */
interface Prepared {
  readonly row: PageVolume;
  readonly text: string;
  readonly keys: Readonly<Record<string, string | number>>;
}

const prepared = new WeakMap<PageVolume, Prepared>();

function prepare(row: PageVolume): Prepared {
  const known = prepared.get(row);
  if (known) return known;
  const { namespace = '', claim = '', name, pods, node, deviceClass, storageClass, health } = row;
  const fresh = {
    row,
    text: [namespace, claim, name, ...pods, node, deviceClass, storageClass, health].join(' ').toLowerCase(),
    keys: {
      // Those without a claim come last.
      claim: claim ? naturalKey(`${namespace}/${claim}`) : `~${naturalKey(name)}`,
      pod: naturalKey(pods[0] ?? '~'),
      node: naturalKey(node),
      class: naturalKey(deviceClass),
      size: row.sizeBytes,
      health,
      age: -Date.parse(row.createdAt),
    },
  };
  prepared.set(row, fresh);
  return fresh;
}

/** Equal ones are in the order of their claims. */
export function sorted(rows: Iterable<PageVolume>, { by, isDescending }: Sort): readonly Prepared[] {
  const direction = isDescending ? -1 : 1;
  return Array.from(rows, prepare).sort(
    ({ keys: a }, { keys: b }) => direction * compare(a[by], b[by]) || compare(a['claim'], b['claim']),
  );
}

/** In the same order. */
export function matching(all: readonly Prepared[], filter: VolumeFilter): readonly PageVolume[] {
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  return all
    .filter(
      ({ row, text }) =>
        (filter.health === '' || row.health === filter.health) &&
        (filter.namespace === '' || row.namespace === filter.namespace) &&
        (filter.node === '' || row.node === filter.node) &&
        (filter.deviceClass === '' || row.deviceClass === filter.deviceClass) &&
        words.every((word) => text.includes(word)),
    )
    .map(({ row }) => row);
}

function compare(a: string | number = '', b: string | number = ''): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** The values of a field, with how many rows have each. */
export function choicesOf(
  rows: Iterable<PageVolume>,
  field: 'health' | 'namespace' | 'node' | 'deviceClass',
): readonly Choice[] {
  const counts = new Map<string, number>();
  for (const row of rows) {
    const value = row[field];
    if (value) counts.set(value, (counts.get(value) ?? 0) + 1);
  }
  return [...counts]
    .map(([value, count]) => ({ value, count, key: naturalKey(value) }))
    .toSorted((a, b) => compare(a.key, b.key));
}

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

/** What searching and sorting need of a row, worked out once: there may be tens of thousands. */
interface Prepared {
  readonly text: string;
  readonly keys: Readonly<Record<string, string | number>>;
}

const prepared = new WeakMap<PageVolume, Prepared>();

function prepare(row: PageVolume): Prepared {
  const known = prepared.get(row);
  if (known) return known;
  const { namespace = '', claim = '', name, pods, node, deviceClass, storageClass, health } = row;
  const fresh = {
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

export function matching(rows: Iterable<PageVolume>, filter: VolumeFilter): PageVolume[] {
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  const found: PageVolume[] = [];
  for (const row of rows) {
    const isChosen =
      (filter.health === '' || row.health === filter.health) &&
      (filter.namespace === '' || row.namespace === filter.namespace) &&
      (filter.node === '' || row.node === filter.node) &&
      (filter.deviceClass === '' || row.deviceClass === filter.deviceClass);
    if (!isChosen) continue;
    if (words.length > 0) {
      const { text } = prepare(row);
      if (!words.every((word) => text.includes(word))) continue;
    }
    found.push(row);
  }
  return found;
}

/** Equal ones are in the order of their claims. */
export function sorted(rows: readonly PageVolume[], { by, isDescending }: Sort): readonly PageVolume[] {
  const direction = isDescending ? -1 : 1;
  return rows.toSorted((left, right) => {
    const [a, b] = [prepare(left).keys, prepare(right).keys];
    return direction * compare(a[by], b[by]) || compare(a['claim'], b['claim']);
  });
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

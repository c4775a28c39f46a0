import { useCallback, useMemo } from 'preact/hooks';
import type { PagePool } from '../../../src/plugin/page/model.ts';
import { ForecastNote, Meter, PoolBar, Share, usageTone } from '../parts/bars.tsx';
import { FilterBar, SearchBox } from '../parts/filter-bar.tsx';
import { Badge, poolTones } from '../parts/health.tsx';
import { Command, Empty } from '../parts/notes.tsx';
import { type GridColumn, VirtualGrid } from '../parts/virtual-grid.tsx';
import { bytes, count, naturalKey, percent } from '../parts/words.ts';
import { useMedia, useNow, useStore } from '../state/hooks.ts';
import { navigate, paths, type Route, setQuery } from '../state/route.ts';

interface NodeRow {
  readonly name: string;
  readonly key: string;
  readonly isThere: boolean;
  readonly pools: ReadonlyMap<string, PagePool>;
  /** Of its fullest pool. */
  readonly fullest: number;
  readonly freeBytes: number;
  readonly volumes: number;
}

export function nodeRowsOf(pools: Iterable<PagePool>, names: readonly string[]): readonly NodeRow[] {
  const byNode = new Map<string, Map<string, PagePool>>(names.map((name) => [name, new Map()]));
  for (const pool of pools) {
    const known = byNode.get(pool.node) ?? new Map<string, PagePool>();
    byNode.set(pool.node, known.set(pool.deviceClass, pool));
  }
  const there = new Set(names);
  return [...byNode].map(([name, own]) => {
    const all = [...own.values()];
    return {
      ...{ name, key: naturalKey(name), isThere: there.has(name), pools: own },
      fullest: Math.max(0, ...all.map(({ usedBytes = 0, sizeBytes = 0 }) => percent(usedBytes, sizeBytes))),
      freeBytes: all.reduce((sum, { freeBytes = 0 }) => sum + freeBytes, 0),
      volumes: all.reduce((sum, { volumes }) => sum + volumes, 0),
    };
  });
}

const orders = {
  node: (a: NodeRow, b: NodeRow) => (a.key < b.key ? -1 : 1),
  fullest: (a: NodeRow, b: NodeRow) => b.fullest - a.fullest,
  free: (a: NodeRow, b: NodeRow) => b.freeBytes - a.freeBytes,
  volumes: (a: NodeRow, b: NodeRow) => b.volumes - a.volumes,
} as const;
type Order = keyof typeof orders;

const orderWords: Readonly<Record<Order, string>> = {
  node: 'By name',
  fullest: 'Fullest first',
  free: 'Most free first',
  volumes: 'Most volumes first',
};

export function Nodes({ route }: { readonly route: Route }) {
  const table = useStore(({ tables }) => tables.pools);
  const names = useStore(({ summary }) => summary?.nodeNames);
  const isNarrow = useMedia('(max-width: 760px)');
  const nowMs = useNow(30_000);
  const text = route.query.get('q') ?? '';
  const order = (route.query.get('sort') ?? 'node') as Order;
  const all = useMemo(() => nodeRowsOf(table.rows.values(), names ?? []), [table, names]);
  const classes = useMemo(
    () => [...new Set([...table.rows.values()].map(({ deviceClass }) => deviceClass))].toSorted(),
    [table],
  );
  const rows = useMemo(
    () => all.filter(({ name }) => name.includes(text.trim())).toSorted(orders[order] ?? orders.node),
    [all, text, order],
  );
  const columns = useMemo<readonly GridColumn[]>(
    () => [{ id: 'node', title: 'Node' }, ...classes.map((name) => ({ id: `pool-${name}`, title: name }))],
    [classes],
  );
  const cells = useCallback(
    (row: NodeRow) => [
      <NodeCell row={row} />,
      ...classes.map((name) => <PoolCell pool={row.pools.get(name)} name={name} nowMs={nowMs} />),
    ],
    [classes, nowMs],
  );
  return (
    <div class="full">
      <h1 tabIndex={-1}>Nodes</h1>
      <FilterBar shown={rows.length} of={all.length} what="node">
        <SearchBox value={text} label="Search nodes" />
        <label class="choice">
          <span class="hidden">Order</span>
          <select value={order} onChange={(event) => setQuery({ sort: event.currentTarget.value })}>
            {Object.entries(orderWords).map(([value, words]) => (
              <option key={value} value={value}>
                {words}
              </option>
            ))}
          </select>
        </label>
        <span class="legend" aria-hidden="true">
          <i class="used" /> used <i class="spare" /> spare <i class="free" /> free
        </span>
      </FilterBar>
      {rows.length > 0 ? (
        <div class="columns" style={{ '--classes': String(Math.max(1, classes.length)) }}>
          <VirtualGrid
            label="Nodes"
            class="nodes"
            columns={columns}
            rows={rows}
            rowHeight={isNarrow ? 40 + classes.length * 62 : 68}
            keyOf={(row) => row.name}
            cells={cells}
            onOpen={open}
          />
        </div>
      ) : (
        <NoNodes isFiltered={text !== ''} />
      )}
    </div>
  );
}

function open({ name }: NodeRow): void {
  navigate(paths.node(name));
}

function NoNodes({ isFiltered }: { readonly isFiltered: boolean }) {
  if (isFiltered) {
    return (
      <Empty icon="search" title="No such nodes">
        <button type="button" onClick={() => setQuery({ q: undefined })}>
          Show all
        </button>
      </Empty>
    );
  }
  return (
    <>
      <Empty icon="nodes" title="No nodes">
        No node has reported its pools. Look at the pods of Moorage:
      </Empty>
      <Command command="kubectl get pods -A -l app.kubernetes.io/name=moorage" />
    </>
  );
}

function NodeCell({ row }: { readonly row: NodeRow }) {
  return (
    <>
      <a class="name" href={paths.node(row.name)} tabIndex={-1} title={row.name}>
        {row.name}
      </a>
      <small class="muted">
        {row.isThere ? (row.pools.size > 0 ? count(row.volumes, 'volume') : 'no report') : 'not in the cluster'}
      </small>
    </>
  );
}

function PoolCell({
  pool,
  name,
  nowMs,
}: {
  readonly pool: PagePool | undefined;
  readonly name: string;
  readonly nowMs: number;
}) {
  if (!pool) return <span class="none">no {name}</span>;
  const { usedBytes, sizeBytes, freeBytes, health, metadataPercent } = pool;
  const isKnown = usedBytes !== undefined && sizeBytes !== undefined;
  return (
    <div class="pool">
      <div class="pool-head">
        <span class="pool-name">{name}</span>
        {health !== 'Healthy' && <Badge tone={poolTones[health]}>{health}</Badge>}
        <ForecastNote pool={pool} nowMs={nowMs} />
        <span class="numbers">{isKnown ? <Share of={percent(usedBytes, sizeBytes)} /> : 'unknown'}</span>
      </div>
      <PoolBar pool={pool} label={name} />
      {metadataPercent !== undefined && (
        <Meter share={metadataPercent} label={`Metadata of ${name}`} tone={usageTone(metadataPercent)} />
      )}
      <div class="pool-foot">
        <span>{freeBytes === undefined ? '' : `${bytes(freeBytes)} free`}</span>
        {metadataPercent !== undefined && (
          <span>
            metadata <Share of={metadataPercent} />
          </span>
        )}
      </div>
    </div>
  );
}

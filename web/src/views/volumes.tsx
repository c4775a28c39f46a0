import { useCallback, useMemo } from 'preact/hooks';
import type { PageVolume } from '../../../src/plugin/page/model.ts';
import { ChoiceBox, FilterBar, SearchBox } from '../parts/filter-bar.tsx';
import { Badge, volumeTones } from '../parts/health.tsx';
import { Command, Empty } from '../parts/notes.tsx';
import { type GridColumn, VirtualGrid } from '../parts/virtual-grid.tsx';
import { age, bytes } from '../parts/words.ts';
import { useMedia, useNow, useStore } from '../state/hooks.ts';
import { navigate, paths, type Route, setQuery } from '../state/route.ts';
import { choicesOf, matching, sorted } from './volume-list.ts';

const columns: readonly GridColumn[] = [
  { id: 'claim', title: 'Claim', isSortable: true },
  { id: 'health', title: 'Health', isSortable: true },
  { id: 'pod', title: 'Pod', isSortable: true },
  { id: 'node', title: 'Node', isSortable: true },
  { id: 'class', title: 'Class', isSortable: true },
  { id: 'size', title: 'Size', isSortable: true, isNumber: true },
  { id: 'age', title: 'Age', isSortable: true, isNumber: true },
];

export function Volumes({ route }: { readonly route: Route }) {
  const table = useStore(({ tables }) => tables.volumes);
  const isNarrow = useMedia('(max-width: 760px)');
  const nowMs = useNow(30_000);
  const value = (name: string) => route.query.get(name) ?? '';
  const [text, health, namespace, node, deviceClass] = ['q', 'health', 'namespace', 'node', 'class'].map(value) as [
    string,
    string,
    string,
    string,
    string,
  ];
  const [by, isDescending] = [value('sort') || 'claim', value('order') === 'down'];
  const choices = useMemo(() => {
    const rows = [...table.rows.values()];
    return {
      health: choicesOf(rows, 'health'),
      namespace: choicesOf(rows, 'namespace'),
      node: choicesOf(rows, 'node'),
      class: choicesOf(rows, 'deviceClass'),
    };
  }, [table]);
  // Sorting takes longer than searching: while one types, the order stays.
  const all = useMemo(() => sorted(table.rows.values(), { by, isDescending }), [table, by, isDescending]);
  const rows = useMemo(
    () => matching(all, { text, health, namespace, node, deviceClass }),
    [all, text, health, namespace, node, deviceClass],
  );
  const cells = useCallback((row: PageVolume) => cellsOf(row, nowMs), [nowMs]);
  const isFiltered = [text, health, namespace, node, deviceClass].some(Boolean);
  return (
    <div class="full">
      <h1 tabIndex={-1}>Volumes</h1>
      <FilterBar shown={rows.length} of={table.rows.size} what="volume">
        <SearchBox value={text} label="Search claims, pods, nodes" />
        <ChoiceBox name="health" label="Any health" value={health} choices={choices.health} />
        <ChoiceBox name="namespace" label="Any namespace" value={namespace} choices={choices.namespace} />
        <ChoiceBox name="node" label="Any node" value={node} choices={choices.node} />
        <ChoiceBox name="class" label="Any class" value={deviceClass} choices={choices.class} />
      </FilterBar>
      {rows.length > 0 ? (
        <VirtualGrid
          label="Volumes"
          class="volumes"
          columns={columns}
          rows={rows}
          rowHeight={isNarrow ? 68 : 36}
          keyOf={(row) => row.name}
          cells={cells}
          onOpen={open}
          sort={{ by, isDescending }}
          onSort={(sort) => setQuery({ sort: sort.by, order: sort.isDescending ? 'down' : undefined })}
        />
      ) : (
        <NoVolumes isFiltered={isFiltered} />
      )}
    </div>
  );
}

function open({ name }: PageVolume): void {
  navigate(paths.volume(name));
}

function NoVolumes({ isFiltered }: { readonly isFiltered: boolean }) {
  const clear = () =>
    setQuery({ q: undefined, health: undefined, namespace: undefined, node: undefined, class: undefined });
  if (!isFiltered) {
    return (
      <>
        <Empty icon="volumes" title="No volumes yet">
          A volume is created when a pod uses a claim of a StorageClass of Moorage. The classes:
        </Empty>
        <Command command="kubectl get storageclass" />
      </>
    );
  }
  return (
    <Empty icon="search" title="No such volumes">
      <button type="button" onClick={clear}>
        Show all
      </button>
    </Empty>
  );
}

function cellsOf(row: PageVolume, nowMs: number) {
  const { namespace, claim, name, pods, node, deviceClass, sizeBytes, health, createdAt, reason } = row;
  const [pod, ...more] = pods;
  const full = claim ? `${namespace}/${claim}` : name;
  return [
    <a class="name" href={paths.volume(name)} tabIndex={-1} aria-label={full} title={reason ?? full}>
      {claim ? (
        <>
          <span class="namespace">{namespace}/</span>
          <span>{claim}</span>
        </>
      ) : (
        <span class="muted">{name}</span>
      )}
    </a>,
    <Badge tone={volumeTones[health]}>{health}</Badge>,
    pod ? `${pod}${more.length > 0 ? ` +${more.length}` : ''}` : <span class="muted">no pod</span>,
    node,
    deviceClass || <span class="muted">default</span>,
    bytes(sizeBytes),
    age(createdAt, nowMs),
  ];
}

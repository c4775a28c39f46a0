import type { ComponentChildren } from 'preact';
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Icon } from './icons.tsx';

export interface GridColumn {
  readonly id: string;
  readonly title: string;
  readonly isSortable?: boolean;
  /** Numbers stand at the right. */
  readonly isNumber?: boolean;
}

export interface Sort {
  readonly by: string;
  readonly isDescending: boolean;
}

export interface VirtualGridProps<Row> {
  readonly label: string;
  readonly columns: readonly GridColumn[];
  readonly rows: readonly Row[];
  readonly rowHeight: number;
  readonly keyOf: (row: Row) => string;
  /** The cells of a row, one for each column. A row is rendered again when it or this function is another one. */
  readonly cells: (row: Row) => readonly ComponentChildren[];
  readonly onOpen: (row: Row) => void;
  readonly sort?: Sort;
  readonly onSort?: (sort: Sort) => void;
  /** For the widths of its columns. */
  readonly class?: string;
}

/** Beyond what is visible, so that a quick scroll shows no gap. */
const overscan = 8;

/** A table of any length: only the rows that can be seen are in the document. Arrow keys move, Enter opens. */
export function VirtualGrid<Row>(props: VirtualGridProps<Row>) {
  const { label, columns, rows, rowHeight, keyOf, cells, onOpen, sort, onSort } = props;
  const grid = useRef<HTMLDivElement>(null);
  const [first, setFirst] = useState(0);
  const [visible, setVisible] = useState(40);
  const [active, setActive] = useState<string>();

  const look = useCallback(() => {
    const { current } = grid;
    if (!current) return;
    setFirst(Math.max(0, Math.floor(current.scrollTop / rowHeight) - overscan));
    setVisible(Math.ceil(current.clientHeight / rowHeight) + 2 * overscan);
  }, [rowHeight]);
  useLayoutEffect(look, [look]);
  useEffect(() => {
    const observer = new ResizeObserver(look);
    if (grid.current) observer.observe(grid.current);
    return () => observer.disconnect();
  }, [look]);

  const move = (event: KeyboardEvent) => {
    const { current } = grid;
    if (!current || event.target !== current) return;
    const at = active === undefined ? -1 : rows.findIndex((row) => keyOf(row) === active);
    const page = Math.max(1, Math.floor(current.clientHeight / rowHeight) - 1);
    const targets: Readonly<Record<string, number>> = {
      ...{ ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: rows.length - 1 },
    };
    const target = targets[event.key];
    const opened = event.key === 'Enter' ? rows[at] : undefined;
    if (opened) onOpen(opened);
    if (target === undefined || rows.length === 0) return;
    event.preventDefault();
    const index = Math.min(rows.length - 1, Math.max(0, target));
    const row = rows[index];
    if (row) setActive(keyOf(row));
    const headHeight = current.firstElementChild?.clientHeight ?? 0;
    const [above, below] = [index * rowHeight, (index + 1) * rowHeight + headHeight - current.clientHeight];
    if (current.scrollTop > above) current.scrollTop = above;
    else if (current.scrollTop < below) current.scrollTop = below;
  };

  const shown = rows.slice(first, first + visible);
  const idOf = (key: string) => `row-${key}`;
  const isActiveShown = shown.some((row) => keyOf(row) === active);
  return (
    <div
      class={`grid ${props.class ?? ''}`}
      role="grid"
      aria-label={label}
      aria-rowcount={rows.length + 1}
      aria-colcount={columns.length}
      aria-activedescendant={isActiveShown && active !== undefined ? idOf(active) : undefined}
      ref={grid}
      tabIndex={0}
      onScroll={look}
      onKeyDown={move}
    >
      <div role="rowgroup" class="grid-head">
        <div role="row" class="grid-line" aria-rowindex={1}>
          {columns.map((column) => (
            <HeadCell key={column.id} column={column} sort={sort} onSort={onSort} />
          ))}
        </div>
      </div>
      <div class="grid-space" role="rowgroup" style={{ height: `${rows.length * rowHeight}px` }}>
        {shown.map((row, i) => {
          const [key, index] = [keyOf(row), first + i];
          // The elements of rows that leave the window are used again for those that enter it.
          return (
            <GridRow
              key={index % visible}
              id={idOf(key)}
              isActive={key === active}
              {...{ row, index, columns, rowHeight, cells, onOpen }}
            />
          );
        })}
      </div>
    </div>
  );
}

interface GridRowProps<Row> extends Pick<VirtualGridProps<Row>, 'columns' | 'rowHeight' | 'cells' | 'onOpen'> {
  readonly row: Row;
  readonly index: number;
  readonly id: string;
  readonly isActive: boolean;
}

function GridRow<Row>({ row, index, id, isActive, columns, rowHeight, cells, onOpen }: GridRowProps<Row>) {
  return useMemo(
    () => (
      <div
        id={id}
        class={isActive ? 'grid-line grid-row active' : 'grid-line grid-row'}
        role="row"
        aria-rowindex={index + 2}
        aria-selected={isActive}
        style={{ height: `${rowHeight}px`, transform: `translateY(${index * rowHeight}px)` }}
        onClick={() => onOpen(row)}
      >
        {cells(row).map((cell, i) => (
          <div key={columns[i]?.id} class={classOf(columns[i])} role="gridcell">
            {cell}
          </div>
        ))}
      </div>
    ),
    [row, index, id, isActive, columns, rowHeight, cells, onOpen],
  );
}

function classOf(column: GridColumn | undefined): string {
  return `cell ${column?.id}${column?.isNumber ? ' number' : ''}`;
}

function HeadCell({
  column,
  sort,
  onSort,
}: {
  readonly column: GridColumn;
  readonly sort: Sort | undefined;
  readonly onSort: ((sort: Sort) => void) | undefined;
}) {
  const { id, title, isSortable } = column;
  const isSorted = sort?.by === id;
  const order = sort?.isDescending ? 'descending' : 'ascending';
  return (
    <div class={classOf(column)} role="columnheader" aria-sort={isSortable ? (isSorted ? order : 'none') : undefined}>
      {isSortable && onSort ? (
        <button type="button" onClick={() => onSort({ by: id, isDescending: isSorted ? !sort.isDescending : false })}>
          {title}
          {isSorted && <Icon name={sort.isDescending ? 'down' : 'up'} size={12} />}
        </button>
      ) : (
        title
      )}
    </div>
  );
}

import type { PagePool, Summary, TableName, Waiting } from '../../../src/plugin/page/model.ts';
import { ForecastNote, PoolBar, Share } from '../parts/bars.tsx';
import { Icon } from '../parts/icons.tsx';
import { Calm, Command, Empty } from '../parts/notes.tsx';
import { WaitingCard } from '../parts/waiting-card.tsx';
import { bytes, count, naturalKey, percent } from '../parts/words.ts';
import { useNow, useStore } from '../state/hooks.ts';
import { paths } from '../state/route.ts';
import { MoveCard } from './moves.tsx';

/** What a team looks at first: what waits and why, what is wrong, how much room is left. */
export function Overview() {
  const summary = useStore((state) => state.summary);
  const waiting = useStore(({ tables }) => tables.waiting);
  const moves = useStore(({ tables }) => tables.moves);
  const nowMs = useNow();
  const rows = [...waiting.rows.values()].toSorted(
    (a, b) => Number(b.severity === 'stuck') - Number(a.severity === 'stuck') || a.since.localeCompare(b.since),
  );
  const running = [...moves.rows.values()].filter(({ isOver }) => !isOver);
  return (
    <>
      <Headline summary={summary} waiting={rows} />
      {summary && <Tiles summary={summary} moving={running.length} />}
      <section aria-labelledby="waiting">
        <h2 id="waiting">
          Waiting <span class="count">{rows.length}</span>
        </h2>
        {rows.length > 0 ? (
          <ul class="cards">
            {rows.map((row) => (
              <WaitingCard key={`${row.kind}/${row.namespace}/${row.name}`} row={row} nowMs={nowMs} />
            ))}
          </ul>
        ) : (
          <Calm>Nothing: every claim that can have a volume of Moorage has one.</Calm>
        )}
      </section>
      {summary && summary.problems.length > 0 && <Problems summary={summary} />}
      <Capacity nowMs={nowMs} />
      {running.length > 0 && (
        <section aria-labelledby="moving">
          <h2 id="moving">
            Moving <span class="count">{running.length}</span>
          </h2>
          <ul class="cards">
            {running.map((move) => (
              <MoveCard key={`${move.namespace}/${move.name}`} move={move} nowMs={nowMs} />
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

interface HeadlineProps {
  readonly summary: Summary | undefined;
  readonly waiting: readonly Waiting[];
}

function Headline({ summary, waiting }: HeadlineProps) {
  const stuck = waiting.filter(({ severity }) => severity === 'stuck').length;
  const errors = summary?.problems.filter(({ severity }) => severity === 'error').length ?? 0;
  const warnings = (summary?.problems.length ?? 0) - errors;
  const isIncomplete = useStore(({ failures }) => failures.length > 0);
  const isNew = summary?.nodes === 0 && summary.volumes === 0;
  const calm = isIncomplete ? 'Not everything is known' : isNew ? 'No node serves volumes yet' : 'All is well';
  const isCalm = warnings === 0 && stuck === 0 && !isIncomplete && !isNew;
  const tone = errors > 0 ? 'bad' : isCalm ? 'good' : 'warning';
  const parts: readonly (readonly [where: string, number: number, words: string])[] = [
    ['problems', errors, count(errors, 'error')],
    ['problems', warnings, count(warnings, 'warning')],
    ['waiting', stuck, `${stuck} stuck`],
    ['waiting', waiting.length - stuck, `${waiting.length - stuck} waiting`],
  ];
  const shown = parts.filter(([, number]) => number > 0);
  return (
    <h1 class={`headline ${tone}`} tabIndex={-1}>
      <Icon name={tone} size={22} />
      <span>
        {shown.map(([where, , words], i) => (
          <>
            {i > 0 && ', '}
            <a href={`#${where}`}>{words}</a>
          </>
        ))}
        {shown.length === 0 && calm}
      </span>
    </h1>
  );
}

function Tiles({ summary, moving }: { readonly summary: Summary; readonly moving: number }) {
  const { nodes, pools, volumes, volumesByHealth, erasing, orphans, unknown } = summary;
  const others = Object.entries(volumesByHealth).filter(([health]) => health !== 'Healthy');
  const healths = others.map(([health, n]) => `${n.toLocaleString('en')} ${health}`).join(', ');
  const erased = erasing > 0 ? `, ${count(erasing, 'volume')} being erased` : '';
  const tiles: readonly (readonly [TableName, path: string, number: number, what: string, more: string])[] = [
    ['pools', '/nodes', nodes, 'node', `${count(pools, 'pool')}${erased}`],
    ['volumes', '/volumes', volumes, 'volume', healths || (volumes > 0 ? 'all healthy' : 'none yet')],
    ['moves', '/moves', moving, 'move', 'in progress'],
    ['orphans', '/orphans', orphans, 'orphan', orphans > 0 ? 'nothing refers to them' : 'everything has its owner'],
  ];
  return (
    <ul class="tiles">
      {tiles.map(([table, path, number, what, more]) => (
        <li key={table}>
          <a href={path}>
            <strong>{unknown.includes(table) ? '?' : number.toLocaleString('en')}</strong>{' '}
            {number === 1 ? what : `${what}s`}
            <small>{unknown.includes(table) ? 'cannot be read' : more}</small>
          </a>
        </li>
      ))}
    </ul>
  );
}

function Problems({ summary }: { readonly summary: Summary }) {
  const { problems } = summary;
  return (
    <section aria-labelledby="problems">
      <h2 id="problems">
        Problems <span class="count">{problems.length}</span>
      </h2>
      <ul class="problems">
        {problems.slice(0, 50).map(({ severity, about, what }) => (
          <li key={`${about}${what}`} class={severity === 'error' ? 'bad' : 'warning'}>
            <Icon name={severity === 'error' ? 'bad' : 'warning'} />
            <div>
              <strong>{about}</strong>
              <p>{what}</p>
            </div>
          </li>
        ))}
      </ul>
      {problems.length > 50 && (
        <Command label={`and ${problems.length - 50} more:`} command="kubectl moorage status -o json" />
      )}
    </section>
  );
}

interface ClassTotal {
  readonly deviceClass: string;
  readonly pools: number;
  readonly volumes: number;
  readonly sizeBytes: number;
  readonly usedBytes: number;
  readonly freeBytes: number;
  readonly spareBytes: number;
  readonly isUnknown: number;
  /** The pool that is full first, if it goes on so. */
  readonly next: PagePool | undefined;
}

function fullFirst(a: PagePool | undefined, b: PagePool): PagePool | undefined {
  const [atA, atB] = [a, b].map((pool) => pool?.forecast?.fullAtMs ?? Number.POSITIVE_INFINITY) as [number, number];
  return atB < atA ? b : a;
}

/** The pools of all nodes that exist, added up by device class. */
function totalsOf(pools: Iterable<PagePool>): readonly ClassTotal[] {
  const totals = new Map<string, ClassTotal>();
  for (const pool of pools) {
    if (!pool.isNodeThere) continue;
    const { deviceClass, sizeBytes, usedBytes, freeBytes = 0, spareBytes = 0, volumes } = pool;
    const known = totals.get(deviceClass);
    const isUnknown = sizeBytes === undefined || usedBytes === undefined;
    totals.set(deviceClass, {
      deviceClass,
      pools: (known?.pools ?? 0) + 1,
      volumes: (known?.volumes ?? 0) + volumes,
      sizeBytes: (known?.sizeBytes ?? 0) + (sizeBytes ?? 0),
      usedBytes: (known?.usedBytes ?? 0) + (usedBytes ?? 0),
      freeBytes: (known?.freeBytes ?? 0) + freeBytes,
      spareBytes: (known?.spareBytes ?? 0) + spareBytes,
      isUnknown: (known?.isUnknown ?? 0) + Number(isUnknown),
      next: fullFirst(known?.next, pool),
    });
  }
  return [...totals.values()].toSorted((a, b) => (naturalKey(a.deviceClass) < naturalKey(b.deviceClass) ? -1 : 1));
}

function Capacity({ nowMs }: { readonly nowMs: number }) {
  const pools = useStore(({ tables }) => tables.pools);
  const totals = totalsOf(pools.rows.values());
  return (
    <section aria-labelledby="capacity">
      <h2 id="capacity">Capacity by device class</h2>
      {totals.length === 0 && (
        <Empty icon="nodes" title="No pools yet">
          No node has reported its pools. The agents report them when they start.
        </Empty>
      )}
      <ul class="classes">
        {totals.map((total) => (
          <li key={total.deviceClass}>
            <div class="class-head">
              <a href={paths.volumesOf({ class: total.deviceClass })}>{total.deviceClass}</a>
              <span class="muted">
                {count(total.pools, 'pool')}, {count(total.volumes, 'volume')}
                {total.isUnknown > 0 && `, ${total.isUnknown} unknown`}
              </span>
              <span class="numbers">
                <strong>{bytes(total.freeBytes)}</strong> free of {bytes(total.sizeBytes)}
              </span>
            </div>
            <PoolBar pool={total} label={total.deviceClass} />
            <p class="muted small">
              <Share of={percent(total.usedBytes, total.sizeBytes)} /> used
              {total.spareBytes > 0 && `, ${bytes(total.spareBytes)} kept spare`}
              {total.next && (
                <>
                  {'; on '}
                  <a href={paths.node(total.next.node)}>{total.next.node}</a>{' '}
                  <ForecastNote pool={total.next} nowMs={nowMs} />
                </>
              )}
            </p>
          </li>
        ))}
      </ul>
    </section>
  );
}

import type { PagePool, Summary, Waiting } from '../../../src/plugin/page/model.ts';
import { PoolBar } from '../parts/bars.tsx';
import { Badge } from '../parts/health.tsx';
import { Icon } from '../parts/icons.tsx';
import { Calm, Command, Empty } from '../parts/notes.tsx';
import { age, bytes, count, naturalKey, percent } from '../parts/words.ts';
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
      <Capacity />
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
  const tone = errors > 0 ? 'bad' : warnings > 0 || stuck > 0 ? 'warning' : 'good';
  const parts = [
    errors > 0 && count(errors, 'error'),
    warnings > 0 && count(warnings, 'warning'),
    stuck > 0 && `${stuck} stuck`,
    waiting.length > stuck && `${waiting.length - stuck} waiting`,
  ].filter(Boolean);
  return (
    <h1 class={`headline ${tone}`} tabIndex={-1}>
      <Icon name={tone} size={22} />
      {parts.length > 0 ? parts.join(', ') : 'All is well'}
    </h1>
  );
}

function Tiles({ summary, moving }: { readonly summary: Summary; readonly moving: number }) {
  const others = Object.entries(summary.volumesByHealth).filter(([health]) => health !== 'Healthy');
  return (
    <ul class="tiles">
      <li>
        <a href="/nodes">
          <strong>{summary.nodes.toLocaleString('en')}</strong> {summary.nodes === 1 ? 'node' : 'nodes'}
          <small>{count(summary.pools, 'pool')}</small>
        </a>
      </li>
      <li>
        <a href="/volumes">
          <strong>{summary.volumes.toLocaleString('en')}</strong> {summary.volumes === 1 ? 'volume' : 'volumes'}
          <small>{others.length > 0 ? others.map(([health, n]) => `${n} ${health}`).join(', ') : 'all healthy'}</small>
        </a>
      </li>
      <li>
        <a href="/moves">
          <strong>{moving}</strong> {moving === 1 ? 'move' : 'moves'}
          <small>in progress</small>
        </a>
      </li>
      <li>
        <a href="/orphans">
          <strong>{summary.orphans}</strong> {summary.orphans === 1 ? 'orphan' : 'orphans'}
          <small>{summary.erasing > 0 ? `${summary.erasing} being erased` : 'nothing is erased now'}</small>
        </a>
      </li>
    </ul>
  );
}

function WaitingCard({ row, nowMs }: { readonly row: Waiting; readonly nowMs: number }) {
  const { kind, namespace, name, sentence, evidence, remedy, since, code, severity } = row;
  return (
    <li class="card waiting">
      <div class="card-head">
        <Badge tone={severity === 'stuck' ? 'warning' : 'busy'}>{severity === 'stuck' ? 'Stuck' : 'Waits'}</Badge>
        <span class="muted">{kind}</span>
        <strong class="name">
          {kind === 'claim' ? (
            <a href={paths.volume(`${namespace}/${name}`)}>{`${namespace}/${name}`}</a>
          ) : (
            `${namespace}/${name}`
          )}
        </strong>
        <span class="muted">{age(since, nowMs)}</span>
        {code && <span class="code">{code}</span>}
      </div>
      <p class="sentence">{sentence}</p>
      {remedy.map((command) => (
        <Command key={command} command={command} />
      ))}
      {evidence.length > 0 && (
        <details>
          <summary>Evidence</summary>
          <ul class="evidence">
            {evidence.map((line) => (
              <li key={line}>{line}</li>
            ))}
          </ul>
        </details>
      )}
    </li>
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
    });
  }
  return [...totals.values()].toSorted((a, b) => (naturalKey(a.deviceClass) < naturalKey(b.deviceClass) ? -1 : 1));
}

function Capacity() {
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
              {Math.floor(percent(total.usedBytes, total.sizeBytes))} % used
              {total.spareBytes > 0 && `, ${bytes(total.spareBytes)} kept spare`}
            </p>
          </li>
        ))}
      </ul>
    </section>
  );
}

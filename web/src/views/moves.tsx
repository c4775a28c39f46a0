import { movePhases } from '../../../src/api/volume-move.ts';
import type { PageMove } from '../../../src/plugin/page/model.ts';
import { Meter } from '../parts/bars.tsx';
import { Badge, moveTone } from '../parts/health.tsx';
import { Icon } from '../parts/icons.tsx';
import { Command, Empty } from '../parts/notes.tsx';
import { age, bytes } from '../parts/words.ts';
import { useNow, useStore } from '../state/hooks.ts';
import { paths } from '../state/route.ts';

export function Moves() {
  const moves = useStore(({ tables }) => tables.moves);
  const nowMs = useNow();
  const rows = [...moves.rows.values()].toSorted((a, b) => b.createdAt.localeCompare(a.createdAt));
  const running = rows.filter(({ isOver }) => !isOver);
  const over = rows.filter(({ isOver }) => isOver);
  return (
    <>
      <h1 tabIndex={-1}>Moves</h1>
      <section aria-labelledby="running">
        <h2 id="running">
          In progress <span class="count">{running.length}</span>
        </h2>
        {running.length > 0 ? (
          <ul class="cards">
            {running.map((move) => (
              <MoveCard key={`${move.namespace}/${move.name}`} move={move} nowMs={nowMs} />
            ))}
          </ul>
        ) : (
          <Empty icon="moves" title="Nothing moves">
            A volume moves to another node while its pod runs. To start a move:
          </Empty>
        )}
        {running.length === 0 && <Command command="kubectl moorage migrate pvc/NAME -n NAMESPACE" />}
      </section>
      {over.length > 0 && (
        <section aria-labelledby="over">
          <h2 id="over">
            Over <span class="count">{over.length}</span>
          </h2>
          <ul class="cards">
            {over.map((move) => (
              <MoveCard key={`${move.namespace}/${move.name}`} move={move} nowMs={nowMs} />
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

/** What every move goes through; an aborted one does not get to the end. */
const usualPhases = movePhases.slice(0, movePhases.indexOf('Done') + 1);

export function MoveCard({ move, nowMs }: { readonly move: PageMove; readonly nowMs: number }) {
  const { namespace, name, claim, from, to, phase, sizeBytes, message, createdAt, pauseSeconds, isOver } = move;
  return (
    <li class="card move">
      <div class="card-head">
        <Badge tone={moveTone(phase)}>{phase}</Badge>
        <strong class="name">
          <a href={paths.volume(`${namespace}/${claim}`)}>{`${namespace}/${claim}`}</a>
        </strong>
        <span class="way">
          {from ? <a href={paths.node(from)}>{from}</a> : '?'} <Icon name="to" size={13} />{' '}
          {to ? <a href={paths.node(to)}>{to}</a> : '?'}
        </span>
        <span class="muted">
          {sizeBytes !== undefined && `${bytes(sizeBytes)}, `}
          {age(createdAt, nowMs)}
        </span>
      </div>
      {!isOver && <Progress move={move} />}
      {message && <p class="sentence">{message}</p>}
      {pauseSeconds !== undefined && (
        <p class="muted small">Its pods could not use it for {Math.round(pauseSeconds)} s.</p>
      )}
      {!isOver && movePhases.indexOf(phase) < movePhases.indexOf('Committed') && (
        <details>
          <summary>Abort</summary>
          <Command command={`kubectl moorage abort ${name} -n ${namespace}`} />
        </details>
      )}
    </li>
  );
}

/** The first round copies everything; later ones what has changed since, so their bar starts again. */
function Progress({ move }: { readonly move: PageMove }) {
  const { phase, round, copiedBytes, totalBytes, claim } = move;
  const at = usualPhases.indexOf(phase);
  const isCopied = copiedBytes !== undefined && totalBytes !== undefined;
  const share = isCopied ? (totalBytes === 0 ? 100 : (copiedBytes / totalBytes) * 100) : 0;
  const words = isCopied ? `${Math.floor(share)} % of ${bytes(totalBytes)}` : '';
  return (
    <div class="progress">
      <ol class="phases" aria-label="Phases">
        {usualPhases.map((each, i) => (
          <li
            key={each}
            class={i < at ? 'past' : i === at ? 'current' : 'ahead'}
            aria-current={i === at ? 'step' : undefined}
          >
            {each}
          </li>
        ))}
      </ol>
      {isCopied && (
        <>
          <Meter share={share} label={`Round ${round ?? 1} of ${claim}`} tone="busy" />
          <p class="small muted">
            {words}
            {round !== undefined && round > 1 && `, round ${round}: what has changed meanwhile`}
          </p>
        </>
      )}
    </div>
  );
}

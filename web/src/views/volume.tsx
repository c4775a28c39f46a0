import type { Moment, PageVolumeDetails } from '../../../src/plugin/page/model.ts';
import { Badge, volumeTones } from '../parts/health.tsx';
import { Icon } from '../parts/icons.tsx';
import { Command, Failed, Loading } from '../parts/notes.tsx';
import { WaitingCard } from '../parts/waiting-card.tsx';
import { age, bytes, clock } from '../parts/words.ts';
import { useAnswer, useNow, useStore } from '../state/hooks.ts';
import { paths } from '../state/route.ts';
import { MoveCard } from './moves.tsx';

/** Everything about one volume, by its name or its `namespace/claim`. */
export function Volume({ name }: { readonly name: string }) {
  const nowMs = useNow();
  const moves = useStore(({ tables }) => tables.moves);
  const waiting = useStore(({ tables }) => tables.waiting.rows.get(`claim/${name}`));
  const row = useStore(({ tables }) => tables.volumes.rows.get(name));
  const isKnown = row !== undefined && !name.includes('/');
  const word = isKnown && row.claim ? `${row.namespace}/${row.claim}` : isKnown ? `pv/${name}` : name;
  const answer = useAnswer<PageVolumeDetails>(`/api/volume?${new URLSearchParams({ name: word })}`, row);
  const claim = row?.claim ? `${row.namespace}/${row.claim}` : name;
  const move = [...moves.rows.values()].find((each) => !each.isOver && `${each.namespace}/${each.claim}` === claim);
  return (
    <>
      <p class="crumbs">
        <a href="/volumes">Volumes</a>
      </p>
      <h1 class="name" tabIndex={-1}>
        {claim}
      </h1>
      {row && (
        <p class="lead">
          <Badge tone={volumeTones[row.health]}>{row.health}</Badge> {row.reason}
        </p>
      )}
      {(waiting ?? move) && (
        <ul class="cards">
          {waiting && <WaitingCard row={waiting} nowMs={nowMs} />}
          {move && <MoveCard move={move} nowMs={nowMs} />}
        </ul>
      )}
      {answer.kind === 'loading' && <Loading />}
      {answer.kind === 'failed' && <Failed message={answer.message} />}
      {answer.kind === 'known' && <Details details={answer.value} word={word} nowMs={nowMs} />}
    </>
  );
}

function Details({
  details,
  word,
  nowMs,
}: {
  readonly details: PageVolumeDetails;
  readonly word: string;
  readonly nowMs: number;
}) {
  const { sizeBytes, requestedBytes, node, podPhases, persistentVolume, reclaimPolicy, createdAt } = details;
  const pods = Object.entries(podPhases);
  const facts: readonly (readonly [string, preact.ComponentChildren])[] = [
    ['Claim', details.claim ? `${details.namespace}/${details.claim} (${details.claimPhase ?? 'deleted'})` : 'none'],
    ['Pods', pods.map(([pod, phase]) => `${pod} (${phase})`).join(', ') || 'none'],
    ['Node', node && <a href={paths.node(node)}>{node}</a>],
    ['Device class', details.deviceClass === '' ? 'default' : details.deviceClass],
    ['StorageClass', details.storageClass],
    ['Size', sizeBytes === undefined ? 'no volume yet' : bytes(sizeBytes)],
    ['Requested', requestedBytes !== undefined && requestedBytes !== sizeBytes ? bytes(requestedBytes) : undefined],
    ['Filesystem', details.filesystem],
    ['Copy of', details.source],
    ['PersistentVolume', persistentVolume && `${persistentVolume}${reclaimPolicy ? ` (${reclaimPolicy})` : ''}`],
    ['Path', details.path],
    ['On disk', details.volumeId],
    ['Created', createdAt && `${clock(createdAt)} (${age(createdAt, nowMs)} ago)`],
  ];
  return (
    <div class="split">
      <section aria-labelledby="facts">
        <h2 id="facts">Facts</h2>
        <dl class="facts">
          {facts.map(([label, value]) =>
            value ? (
              <div key={label}>
                <dt>{label}</dt>
                <dd>{value}</dd>
              </div>
            ) : null,
          )}
        </dl>
        <Command command={`kubectl moorage volume ${word}`} />
      </section>
      <section aria-labelledby="timeline">
        <h2 id="timeline">Timeline</h2>
        <Timeline moments={details.timeline} nowMs={nowMs} />
        <p class="muted small">Kubernetes keeps Events for an hour; what objects record stays.</p>
      </section>
    </div>
  );
}

function Timeline({ moments, nowMs }: { readonly moments: readonly Moment[]; readonly nowMs: number }) {
  return (
    <ol class="timeline">
      {moments.map(({ time, kind, title, detail, isWarning }) => (
        <li key={`${time}${title}${detail}`} class={isWarning ? 'warning' : kind}>
          <span class="mark">
            <Icon name={isWarning ? 'warning' : kind} size={14} />
          </span>
          <div>
            <p class="moment">
              <strong>{title}</strong>
              <time dateTime={time} title={clock(time)}>
                {age(time, nowMs)} ago
              </time>
            </p>
            {detail && <p class="muted small">{detail}</p>}
          </div>
        </li>
      ))}
    </ol>
  );
}

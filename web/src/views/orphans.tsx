import type { PageOrphan } from '../../../src/plugin/page/model.ts';
import { Badge } from '../parts/health.tsx';
import { Command, Empty } from '../parts/notes.tsx';
import { age, bytes, count } from '../parts/words.ts';
import { useNow, useStore } from '../state/hooks.ts';
import { paths } from '../state/route.ts';

/** More than a person resolves by hand: the terminal has all of them. */
const mostShown = 200;

export function Orphans() {
  const orphans = useStore(({ tables }) => tables.orphans);
  const unlisted = useStore(({ summary }) => summary?.unlistedOrphans ?? 0);
  const nowMs = useNow();
  const rows = [...orphans.rows.values()];
  const total = rows.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  const beyond = Math.max(0, rows.length - mostShown) + unlisted;
  return (
    <>
      <h1 tabIndex={-1}>Orphans</h1>
      <p class="lead">
        Volumes and objects that nothing refers to any more. Moorage removes none of them that has data: what to do with
        each is your decision.
      </p>
      {rows.length === 0 ? (
        <Empty icon="good" title="No orphans">
          Each volume on a disk has its objects, and each object its volume.
        </Empty>
      ) : (
        <>
          <p class="muted">
            {count(rows.length, 'orphan')}, {bytes(total)}
          </p>
          <ul class="cards">
            {rows.slice(0, mostShown).map((orphan) => (
              <OrphanCard key={`${orphan.kind}/${orphan.node}/${orphan.name}`} orphan={orphan} nowMs={nowMs} />
            ))}
          </ul>
        </>
      )}
      {beyond > 0 && (
        <Command label={`and ${beyond.toLocaleString('en')} more:`} command="kubectl moorage orphans -o wide" />
      )}
    </>
  );
}

function OrphanCard({ orphan, nowMs }: { readonly orphan: PageOrphan; readonly nowMs: number }) {
  const { kind, name, node, sizeBytes, since, lastOwner, reason, first, keep, remove } = orphan;
  return (
    <li class="card">
      <div class="card-head">
        <Badge tone={kind === 'Missing' || kind === 'NodeGone' ? 'bad' : 'warning'}>{kind}</Badge>
        <strong class="name">{name}</strong>
        <span class="muted">
          {bytes(sizeBytes)}
          {node && (
            <>
              {' on '}
              <a href={paths.node(node)}>{node}</a>
            </>
          )}
          {lastOwner && `, last of ${lastOwner}`}
          {since && `, ${age(since, nowMs)}`}
        </span>
      </div>
      <p class="sentence">{reason}</p>
      {first && <p class="remedy">First: {first}</p>}
      {keep && <Command label="Keep" command={keep} />}
      {remove && <Command label="Remove" command={remove} />}
    </li>
  );
}

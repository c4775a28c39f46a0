import type { ComponentChildren } from 'preact';
import type { PageNode, PagePool } from '../../../src/plugin/page/model.ts';
import { ForecastNote, Meter, PoolBar, Share, Sparkline, usageTone } from '../parts/bars.tsx';
import { Badge, poolTones } from '../parts/health.tsx';
import { Empty, Failed, Loading } from '../parts/notes.tsx';
import { age, bytes, count, naturalKey, percent } from '../parts/words.ts';
import { useAnswer, useNow, useStore } from '../state/hooks.ts';
import { paths } from '../state/route.ts';

/** The pools of one node, how they were used, and what the node runs. */
export function NodeView({ name }: { readonly name: string }) {
  const table = useStore(({ tables }) => tables.pools);
  const nowMs = useNow();
  const pools = [...table.rows.values()]
    .filter(({ node }) => node === name)
    .toSorted((a, b) => (naturalKey(a.deviceClass) < naturalKey(b.deviceClass) ? -1 : 1));
  const answer = useAnswer<PageNode>(`/api/node?${new URLSearchParams({ name })}`, table);
  const volumes = pools.reduce((sum, pool) => sum + pool.volumes, 0);
  const [first] = pools;
  return (
    <>
      <p class="crumbs">
        <a href="/nodes">Nodes</a>
      </p>
      <h1 class="name" tabIndex={-1}>
        {name}
      </h1>
      <p class="lead">
        {first && !first.isNodeThere && <Badge tone="bad">Not in the cluster</Badge>}{' '}
        <a href={paths.volumesOf({ node: name })}>{count(volumes, 'volume')}</a>
        {' · '}
        <a href={paths.evacuation(name)}>Rehearse an evacuation</a>
        {first && <span class="muted"> · reported {age(first.updatedAt, nowMs)} ago</span>}
      </p>
      {pools.length === 0 && answer.kind !== 'failed' && (
        <Empty icon="nodes" title="No pools">
          The node has not reported any.
        </Empty>
      )}
      <div class="pools">
        {pools.map((pool) => (
          <Pool
            key={pool.deviceClass}
            pool={pool}
            node={answer.kind === 'known' ? answer.value : undefined}
            nowMs={nowMs}
          />
        ))}
      </div>
      {answer.kind === 'loading' && <Loading rows={2} />}
      {answer.kind === 'failed' && <Failed message={answer.message} />}
      {answer.kind === 'known' && <Reported node={answer.value} />}
    </>
  );
}

function Pool({
  pool,
  node,
  nowMs,
}: {
  readonly pool: PagePool;
  readonly node: PageNode | undefined;
  readonly nowMs: number;
}) {
  const { deviceClass, isDefault, type, place, health, reason, sizeBytes, usedBytes, freeBytes, spareBytes } = pool;
  const { dataPercent, metadataPercent, volumes } = pool;
  const isKnown = sizeBytes !== undefined && usedBytes !== undefined;
  return (
    <section class="card pool-card" aria-label={`Pool ${deviceClass}`}>
      <div class="card-head">
        <h2>{deviceClass}</h2>
        {isDefault && <span class="code">default</span>}
        <Badge tone={poolTones[health]}>{health}</Badge>
        <span class="muted">{[type, place].filter(Boolean).join(' · ')}</span>
      </div>
      {reason && <p class="sentence">{reason}</p>}
      <PoolBar pool={pool} label={deviceClass} />
      <dl class="inline-facts">
        <Fact
          label="Used"
          value={
            isKnown ? (
              <>
                {bytes(usedBytes)}, <Share of={percent(usedBytes, sizeBytes)} />
              </>
            ) : (
              'unknown'
            )
          }
        />
        <Fact label="Free" value={freeBytes === undefined ? 'unknown' : bytes(freeBytes)} />
        <Fact label="Spare" value={spareBytes === undefined ? undefined : bytes(spareBytes)} />
        <Fact label="Size" value={sizeBytes === undefined ? 'unknown' : bytes(sizeBytes)} />
        <Fact label="Volumes" value={volumes.toLocaleString('en')} />
      </dl>
      {dataPercent !== undefined && metadataPercent !== undefined && (
        <div class="thin-usage">
          <span>
            Data <Share of={dataPercent} />
          </span>
          <Meter share={dataPercent} label="Thin data" tone={usageTone(dataPercent)} />
          <span>
            Metadata <Share of={metadataPercent} />
          </span>
          <Meter share={metadataPercent} label="Thin metadata" tone={usageTone(metadataPercent)} />
        </div>
      )}
      {node && <Sparkline samples={node.history[deviceClass] ?? []} nowMs={nowMs} />}
      <ForecastNote pool={pool} nowMs={nowMs} />
    </section>
  );
}

function Fact({ label, value }: { readonly label: string; readonly value: ComponentChildren }) {
  if (value === undefined) return null;
  return (
    <div>
      <dt>{label}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function Reported({ node }: { readonly node: PageNode }) {
  const versions = Object.entries(node.versions);
  return (
    <>
      {node.erasures.length > 0 && (
        <section aria-labelledby="erasures">
          <h2 id="erasures">Being erased</h2>
          <ul class="erasures">
            {node.erasures.map(({ name, deviceClass, donePercent }) => (
              <li key={name}>
                <span class="name">{name}</span> <span class="muted">{deviceClass}</span>
                <Meter share={donePercent} label={`Erasing ${name}`} tone="busy" />
                <span class="numbers">{donePercent} %</span>
              </li>
            ))}
          </ul>
        </section>
      )}
      {versions.length > 0 && (
        <section aria-labelledby="versions">
          <h2 id="versions">Versions</h2>
          <dl class="inline-facts">
            {versions.map(([name, version]) => (
              <Fact key={name} label={name} value={version} />
            ))}
          </dl>
        </section>
      )}
    </>
  );
}

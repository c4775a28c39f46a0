import { useState } from 'preact/hooks';
import type { PageEvacuation } from '../../../src/plugin/page/model.ts';
import { Badge } from '../parts/health.tsx';
import { Icon } from '../parts/icons.tsx';
import { Command, Empty, Failed, Loading } from '../parts/notes.tsx';
import { age, bytes, count, naturalKey, span } from '../parts/words.ts';
import { useAnswer, useNow, useStore } from '../state/hooks.ts';
import { paths, type Route, setQuery } from '../state/route.ts';

/** What `kubectl moorage evacuate` would do with a node, now. Nothing is changed. */
export function Evacuation({ route }: { readonly route: Route }) {
  const names = useStore(({ summary }) => summary?.nodeNames) ?? [];
  const [round, setRound] = useState(0);
  const nowMs = useNow();
  const [node, to] = [route.query.get('node') ?? '', route.query.get('to') ?? ''];
  const isStopping = route.query.get('stop-bare-pods') === 'true';
  const query = new URLSearchParams({ node, ...(to && { to }), ...(isStopping && { 'stop-bare-pods': 'true' }) });
  const isComplete = names.includes(node) && (to === '' || names.includes(to));
  const answer = useAnswer<PageEvacuation>(isComplete ? `/api/evacuation?${query}` : undefined, round);
  const sorted = names.toSorted((a, b) => (naturalKey(a) < naturalKey(b) ? -1 : 1));
  return (
    <>
      <h1 tabIndex={-1}>Evacuation rehearsal</h1>
      <p class="lead">What would move where if a node were evacuated now, how long it may take, and what would stay.</p>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <NodeBox label="Evacuate node" name="node" value={node} />
        <NodeBox label="To node (any)" name="to" value={to} />
        <label class="check">
          <input
            type="checkbox"
            checked={isStopping}
            onChange={(event) => setQuery({ 'stop-bare-pods': event.currentTarget.checked ? 'true' : undefined })}
          />
          Stop pods that nothing starts again
        </label>
        <datalist id="node-names">
          {sorted.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
        {answer.kind === 'known' && (
          <button type="button" onClick={() => setRound(round + 1)}>
            Plan again
          </button>
        )}
        {answer.kind === 'known' && (
          <span class="muted">planned {age(new Date(answer.atMs).toISOString(), nowMs)} ago</span>
        )}
      </form>
      {!isComplete && (
        <Empty icon="evacuate" title={node && !names.includes(node) ? 'No such node' : 'Choose a node'}>
          Nothing is changed: this is only a rehearsal.
        </Empty>
      )}
      {isComplete && answer.kind === 'loading' && <Loading />}
      {isComplete && answer.kind === 'failed' && <Failed message={answer.message} />}
      {isComplete && answer.kind === 'known' && (
        <Plan plan={answer.value} node={node} to={to} isStopping={isStopping} />
      )}
    </>
  );
}

function NodeBox({ label, name, value }: { readonly label: string; readonly name: string; readonly value: string }) {
  return (
    <label class="node-box">
      <span class="hidden">{label}</span>
      <input
        list="node-names"
        placeholder={label}
        value={value}
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => setQuery({ [name]: event.currentTarget.value.trim() })}
      />
    </label>
  );
}

interface PlanProps {
  readonly plan: PageEvacuation;
  readonly node: string;
  readonly to: string;
  readonly isStopping: boolean;
}

function Plan({ plan, node, to, isStopping }: PlanProps) {
  const { moves, staying, totalBytes, seconds, bytesPerSecond } = plan;
  const command = [`kubectl moorage evacuate ${node}`, to && `--to ${to}`, isStopping && '--stop-bare-pods'];
  const isEmpty = moves.length === 0 && staying.length === 0;
  if (isEmpty) {
    return (
      <Empty icon="good" title="Nothing to move">
        Node {node} has no volumes.
      </Empty>
    );
  }
  return (
    <>
      <p class={`verdict ${staying.length > 0 ? 'warning' : 'good'}`}>
        <Icon name={staying.length > 0 ? 'warning' : 'good'} size={20} />
        <span>
          <strong>{moves.length > 0 ? `${count(moves.length, 'volume')} would move` : 'Nothing can be moved'}</strong>
          {moves.length > 0 &&
            `: ${bytes(totalBytes)}, one after the other, at most ${span(seconds)} at ${bytes(bytesPerSecond)}/s`}
          {staying.length > 0 && `; ${staying.length} would stay`}.
        </span>
      </p>
      {moves.length > 0 && <Moving moves={moves} />}
      {staying.length > 0 && <Staying staying={staying} />}
      {moves.length > 0 && <Command label="To do it" command={command.filter(Boolean).join(' ')} />}
    </>
  );
}

/** By target: what each of the other nodes would take. */
function Moving({ moves }: Pick<PageEvacuation, 'moves'>) {
  const hasSnapshots = moves.some(({ snapshots }) => snapshots.length > 0);
  const targets = [...new Set(moves.map(({ to }) => to))].toSorted((a, b) => (naturalKey(a) < naturalKey(b) ? -1 : 1));
  return (
    <section aria-labelledby="moving">
      <h2 id="moving">
        Would move <span class="count">{moves.length}</span>
      </h2>
      {targets.map((target) => {
        const own = moves.filter(({ to }) => to === target);
        return (
          <div class="target" key={target}>
            <h3>
              <Icon name="to" size={14} /> <a href={paths.node(target)}>{target}</a>
              <span class="muted">takes {bytes(own.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0))}</span>
            </h3>
            <div class="scroll">
              <table>
                <thead>
                  <tr>
                    <th scope="col" class="wide">
                      Claim
                    </th>
                    <th scope="col" class="number">
                      Size
                    </th>
                    <th scope="col">Pause</th>
                    {hasSnapshots && <th scope="col">Stays behind</th>}
                  </tr>
                </thead>
                <tbody>
                  {own.map(({ namespace, claim, sizeBytes, pods, stopSeconds, snapshots }) => (
                    <tr key={`${namespace}/${claim}`}>
                      <td>
                        <a href={paths.volume(`${namespace}/${claim}`)}>{`${namespace}/${claim}`}</a>
                      </td>
                      <td class="number">{bytes(sizeBytes)}</td>
                      <td>
                        {pods.length > 0
                          ? `up to ${stopSeconds} s to stop ${pods.join(', ')}, then a few seconds`
                          : 'none'}
                      </td>
                      {hasSnapshots && <td>{snapshots.join(', ')}</td>}
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          </div>
        );
      })}
    </section>
  );
}

function Staying({ staying }: Pick<PageEvacuation, 'staying'>) {
  return (
    <section aria-labelledby="staying">
      <h2 id="staying">
        Would stay <span class="count">{staying.length}</span>
      </h2>
      <ul class="problems">
        {staying.map(({ what, sizeBytes, reason, isLost }) => (
          <li key={what}>
            <Badge tone={isLost ? 'bad' : 'warning'}>{isLost ? 'Data lost' : 'Stays'}</Badge>
            <div>
              <strong>
                {what} {sizeBytes > 0 && <span class="muted">{bytes(sizeBytes)}</span>}
              </strong>
              <p>{reason}</p>
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}

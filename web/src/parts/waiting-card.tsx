import type { Waiting } from '../../../src/plugin/page/model.ts';
import { paths } from '../state/route.ts';
import { Badge } from './health.tsx';
import { Command } from './notes.tsx';
import { age } from './words.ts';

/** A claim or a pod that waits: why, and what to do. */
export function WaitingCard({ row, nowMs }: { readonly row: Waiting; readonly nowMs: number }) {
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
      {remedy.length > 0 && (
        <div class="commands">
          {remedy.map((command) => (
            <Command key={command} command={command} />
          ))}
        </div>
      )}
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

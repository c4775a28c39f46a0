/** node engine-child.ts CONFIG: the storage engine as a process that does what its parent says, until it is killed. */
import { codeOf, messageOf } from '../../../src/base/errors.ts';
import type { Answer, Request } from './engine-process.ts';
import { openEngine } from './open-engine.ts';

const { signal } = new AbortController();
const pools = await openEngine(process.argv[2] ?? '');

process.on('message', (request: Request) => void answer(request));
process.on('disconnect', () => process.exit());
send({ call: 0, value: 'ready' });

async function answer({ call, pool: name, action }: Request): Promise<void> {
  try {
    send({ call, value: await act(name, action) });
  } catch (error) {
    send({ call, error: { code: codeOf(error), message: messageOf(error) } });
  }
}

async function act(name: string, action: Request['action']): Promise<unknown> {
  const pool = pools.get(name);
  switch (action.kind) {
    case 'list':
      return pool.list();
    case 'capacity':
      return pool.capacity();
    case 'create':
      return pool.create(action.wanted, signal);
    case 'grow':
      return pool.grow(action.id, action.sizeBytes, signal);
    case 'tag':
      return pool.addTags(action.id, action.tags, signal);
    case 'snapshot':
      return pool.snapshot(action.source, action.wanted, signal);
    case 'remove':
      return pool.remove(action.id, signal);
  }
}

function send(answer: Answer): void {
  process.send?.(answer);
}

/** node engine-child.ts CONFIG: the storage engine as a process that runs its parent's requests until it is killed. */
import { codeOf, messageOf } from '../../../src/base/errors.ts';
import { apply } from './engine.ts';
import type { Answer, Request } from './engine-process.ts';
import { openEngine } from './open-engine.ts';

const pools = await openEngine(process.argv[2] ?? '');

process.on('message', (request: Request) => void answer(request));
process.on('disconnect', () => process.exit());
send({ call: 0, value: 'ready' });

async function answer({ call, pool: name, action }: Request): Promise<void> {
  try {
    const pool = pools.get(name);
    send({ call, value: action.kind === 'list' ? pool.list() : await apply(pool, action) });
  } catch (error) {
    send({ call, error: { code: codeOf(error), message: messageOf(error) } });
  }
}

function send(answer: Answer): void {
  process.send?.(answer);
}

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Requeue } from './keyed-queue.ts';
import { ManualClock } from './testing/manual-clock.ts';
import { silentLog } from './testing/silent-log.ts';
import { type Work, Workers, type WorkQueue } from './work.ts';

/** A reconciler whose watch the test controls. */
function recorded(name: string, more: Partial<Work> = {}) {
  const seen: string[] = [];
  const watching = new Set<WorkQueue>();
  const work: Work = {
    name,
    concurrency: 1,
    watch: (queue) => {
      watching.add(queue);
      queue.add('present');
      return [() => void watching.delete(queue)];
    },
    reconcile: async (key) => {
      seen.push(key);
      return Requeue.never;
    },
    ...more,
  };
  const change = (key: string) => {
    for (const queue of watching) queue.add(key);
  };
  return { work, seen, watching, change };
}

const workers = (...work: Work[]) => new Workers(work, { clock: new ManualClock(), log: silentLog, random: () => 0 });
const settled = () => new Promise((resolve) => setImmediate(resolve));

test('work of every replica gets existing objects and changes until it is stopped', async () => {
  const volumes = recorded('volumes');
  const all = workers(volumes.work);
  all.start();
  await settled();
  volumes.change('new');
  await settled();
  assert.deepEqual(volumes.seen, ['present', 'new']);

  await all.stop(0);
  assert.equal(volumes.watching.size, 0, 'the watch still runs');
});

test('work of the leader runs whenever this replica leads', async () => {
  const removals = recorded('removals', { leaderOnly: true });
  const all = workers(removals.work);
  all.start();
  await settled();
  assert.deepEqual(removals.seen, [], 'nobody leads yet');

  const term = new AbortController();
  const leading = all.lead(term.signal);
  await settled();
  term.abort();
  await leading;
  removals.change('while another leads');
  await settled();
  assert.deepEqual(removals.seen, ['present']);

  const next = new AbortController();
  const leadingAgain = all.lead(next.signal);
  await settled();
  next.abort();
  await leadingAgain;
  assert.deepEqual(removals.seen, ['present', 'present']);
});

test('work in progress is aborted when leadership is lost', async () => {
  let aborted = false;
  const slow = recorded('slow', {
    leaderOnly: true,
    reconcile: (_, signal) =>
      new Promise((resolve) => {
        signal.addEventListener('abort', () => {
          aborted = true;
          resolve(Requeue.never);
        });
      }),
  });
  const clock = new ManualClock();
  const all = new Workers([slow.work], { clock, log: silentLog, random: () => 0 });
  const term = new AbortController();
  const leading = all.lead(term.signal);
  await settled();
  assert.deepEqual(all.queues['slow']?.depth, { waiting: 0, running: 1, failing: 0 });
  term.abort();
  await settled();
  clock.advance(0);
  await leading;
  assert.ok(aborted);
  assert.deepEqual(all.queues['slow']?.depth, { waiting: 0, running: 0, failing: 0 });
});

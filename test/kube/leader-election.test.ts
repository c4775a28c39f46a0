import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { type Clock, systemClock } from '../../src/base/clock.ts';
import { ManualClock } from '../../src/base/testing/manual-clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import type { Connection } from '../../src/kube/connection.ts';
import { LeaderElection } from '../../src/kube/leader-election.ts';
import { type Lease, leases } from '../../src/kube/resource.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { connect, newNamespace, startApiServer } from './api-server.ts';
import { Link } from './link.ts';

const api = await startApiServer();

/** One candidate, and the times when it starts and stops leading. */
class Candidate {
  readonly leads = Promise.withResolvers<void>();
  readonly ceases = Promise.withResolvers<void>();
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;

  constructor(
    t: TestContext,
    options: { namespace: string; identity: string; connection: Connection; clock?: Clock; leaders: Leaders },
  ) {
    const { namespace, identity, connection, clock = systemClock, leaders } = options;
    const client = connect(t, connection);
    const election = new LeaderElection({ client, namespace, name: 'leader', identity, clock, log: silentLog });
    this.#ended = election.run(async (signal) => {
      leaders.add(identity);
      this.leads.resolve();
      if (!signal.aborted) await once(signal, 'abort');
      leaders.delete(identity);
      this.ceases.resolve();
    }, this.#stop.signal);
    t.after(() => this.stop());
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#ended;
  }
}

/** The current leader; throws if there is more than one. */
class Leaders extends Set<string> {
  override add(identity: string): this {
    super.add(identity);
    assert.ok(this.size === 1, `${[...this].join(' and ')} lead at the same time`);
    return this;
  }
}

const holderOf = async (namespace: string) =>
  (await api.admin.get(leases, 'leader', { namespace }))?.spec?.holderIdentity;

test('one of two candidates leads; when it stops, it releases the lease and the other one leads at once', async (t) => {
  const namespace = await newNamespace(api, 'release');
  const leaders = new Leaders();
  const one = new Candidate(t, { namespace, identity: 'one', connection: api.connection, leaders });
  await one.leads.promise;
  const clock = new ManualClock(Date.now()); // it stands still, so a candidate that waits for a lease to expire waits forever
  const other = new Candidate(t, { namespace, identity: 'other', connection: api.connection, clock, leaders });
  assert.equal(await holderOf(namespace), 'one');

  await one.stop();
  await other.leads.promise;
  assert.equal(await holderOf(namespace), 'other');
  await other.stop();
  assert.equal(await holderOf(namespace), '');
});

test('a leader keeps leading when somebody labels its lease, and stops when somebody takes it', async (t) => {
  const namespace = await newNamespace(api, 'taken');
  const leader = new Candidate(t, { namespace, identity: 'one', connection: api.connection, leaders: new Leaders() });
  await leader.leads.promise;
  const change = (body: object) => api.admin.patch(leases, 'leader', { type: 'merge', body }, { namespace });

  const { spec } = await change({ metadata: { labels: { touched: 'true' } } });
  const renewed = (lease: Lease | undefined) => lease?.spec?.renewTime !== spec?.renewTime;
  await eventually('the lease is renewed', async () => renewed(await api.admin.get(leases, 'leader', { namespace })));

  await change({ spec: { holderIdentity: 'intruder' } });
  await leader.ceases.promise;
  assert.equal(await holderOf(namespace), 'intruder'); // not released: it was no longer ours
});

test('a leader without network stops leading before another one starts, whatever their clocks say', async (t) => {
  const namespace = await newNamespace(api, 'cut-off');
  const leaders = new Leaders();
  const link = await Link.to(t, api.connection);
  const one = new Candidate(t, { namespace, identity: 'one', connection: link.connection, leaders });
  await one.leads.promise;
  const anHourAhead: Clock = { ...systemClock, now: () => systemClock.now() + 3_600_000 };
  const other = new Candidate(t, {
    namespace,
    identity: 'other',
    connection: api.connection,
    clock: anHourAhead,
    leaders,
  });

  link.cut();
  await one.ceases.promise;
  assert.deepEqual([...leaders], []);
  await other.leads.promise;
  assert.equal(await holderOf(namespace), 'other');

  link.mend();
  await other.stop();
  await one.stop(); // it was a candidate again meanwhile, and may have won
});

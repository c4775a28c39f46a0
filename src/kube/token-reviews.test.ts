import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualClock } from '../base/testing/manual-clock.ts';
import type { KubeClient } from './client.ts';
import type { KubeObject, Resource } from './resource.ts';
import { TokenReviews } from './token-reviews.ts';

const minuteMs = 60_000;

/** An API server that knows these tokens, whose owners may read metrics. */
class Reviewing {
  readonly asked: string[] = [];
  readonly specs: unknown[] = [];
  readonly mayRead = new Set(['prometheus']);
  answer: Promise<void> = Promise.resolve();

  readonly client = {
    create: async (resource: Resource<KubeObject>, object: { spec: { token?: string; user?: string } }) => {
      this.asked.push(resource.kind);
      this.specs.push(object.spec);
      await this.answer;
      const { token = '', user = '' } = object.spec;
      const known = token.startsWith('of-');
      return resource.kind === 'TokenReview'
        ? { status: { authenticated: known, ...(known && { user: { username: token.slice(3), groups: ['g'] } }) } }
        : { status: { allowed: this.mayRead.has(user) } };
    },
  } as unknown as Pick<KubeClient, 'create'>;
}

function reviewing() {
  const server = new Reviewing();
  const clock = new ManualClock();
  return { server, clock, reviews: new TokenReviews({ client: server.client, clock }) };
}

test('the API server decides who may read, by token and by user', async () => {
  const { server, reviews } = reviewing();
  assert.equal(await reviews.mayGet('of-prometheus', '/metrics'), 'allowed');
  assert.deepEqual(server.specs, [
    { token: 'of-prometheus' },
    { user: 'prometheus', groups: ['g'], nonResourceAttributes: { path: '/metrics', verb: 'get' } },
  ]);
  assert.equal(await reviews.mayGet('of-somebody', '/metrics'), 'forbidden');
  assert.equal(await reviews.mayGet('unknown', '/metrics'), 'unauthenticated');
});

test('a granted permission is cached for a minute, a denied one is not', async () => {
  const { server, clock, reviews } = reviewing();
  const mayGet = () => reviews.mayGet('of-prometheus', '/metrics');
  await mayGet();
  server.asked.length = 0;
  clock.advance(minuteMs - 1);
  assert.equal(await mayGet(), 'allowed');
  assert.deepEqual(server.asked, []);

  server.mayRead.clear();
  clock.advance(1);
  assert.equal(await mayGet(), 'forbidden');
  server.mayRead.add('prometheus');
  assert.equal(await mayGet(), 'allowed');
});

test('permission for one path is not permission for another', async () => {
  const { server, reviews } = reviewing();
  await reviews.mayGet('of-prometheus', '/metrics');
  server.mayRead.clear();
  assert.equal(await reviews.mayGet('of-prometheus', '/other'), 'forbidden');
});

test('many bad tokens at once are not all reviewed, and do not block a cached one', async () => {
  const { server, reviews } = reviewing();
  await reviews.mayGet('of-prometheus', '/metrics');
  server.asked.length = 0;
  const slow = Promise.withResolvers<void>();
  server.answer = slow.promise;
  const bad = Array.from({ length: 10 }, (_, index) => reviews.mayGet(`bad-${index}`, '/metrics'));
  assert.equal(await reviews.mayGet('of-prometheus', '/metrics'), 'allowed');
  slow.resolve();
  const decisions = await Promise.all(bad);
  assert.deepEqual(decisions.filter((decision) => decision === 'busy').length, 6);
  assert.equal(server.asked.length, 4);
  assert.equal(await reviews.mayGet('bad-10', '/metrics'), 'unauthenticated', 'later reviews are possible again');
});

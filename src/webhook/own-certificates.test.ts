import assert from 'node:assert/strict';
import { test } from 'node:test';
import { selfSigned } from '../http/self-signed.ts';
import { trustedWith } from './own-certificates.ts';

const dayMs = 24 * 60 * 60_000;
const nowMs = Date.now();
const cert = async (commonName: string, validForMs = 7 * dayMs) =>
  (await selfSigned({ commonName, dnsName: 'moorage.svc', nowMs, validForMs })).cert;

test('our certificate is added to the bundle once', async () => {
  const [own, other] = [await cert('a'), await cert('b')];
  const trusted = trustedWith([own], other, { identity: 'a', nowMs });
  assert.equal(trusted, other + own);
  assert.equal(trustedWith([own], trusted, { identity: 'a', nowMs }), trusted);
});

test('replicas do not remove the certificates of each other', async () => {
  const [a, b] = [await cert('a'), await cert('b')];
  const settled = trustedWith([b], trustedWith([a], '', { identity: 'a', nowMs }), { identity: 'b', nowMs });
  assert.equal(trustedWith([a], settled, { identity: 'a', nowMs }), settled);
  assert.equal(trustedWith([b], settled, { identity: 'b', nowMs }), settled);
});

test('our certificate from before a restart and expired ones are removed', async () => {
  const [before, now, ended, other] = [await cert('a'), await cert('a'), await cert('gone', dayMs), await cert('b')];
  const trusted = trustedWith([now], before + ended + other, { identity: 'a', nowMs: nowMs + 2 * dayMs });
  assert.equal(trusted, other + now);
});

test('the old and the new certificate are trusted during a renewal', async () => {
  const [old, next] = [await cert('a'), await cert('a')];
  const both = trustedWith([old, next], old, { identity: 'a', nowMs });
  assert.equal(both, old + next);
  assert.equal(trustedWith([next], both, { identity: 'a', nowMs }), next);
});

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { selfSigned } from '../http/self-signed.ts';
import { isTrusted } from './trust.ts';

const read = (name: string) => readFileSync(join(import.meta.dirname, 'testdata', 'chain', `${name}.pem`), 'utf8');
const [root, intermediate, leaf] = [read('root'), read('intermediate'), read('leaf')];
const own = async (commonName: string) =>
  (await selfSigned({ commonName, dnsName: 'moorage.svc', nowMs: Date.now(), validForMs: 1000 })).cert;

for (const [what, chain, bundle, trusted] of [
  ['its own certificate', leaf, leaf, true],
  ['its authority', leaf, intermediate, true],
  ['its authority, among others', leaf, (await own('a')) + intermediate, true],
  ['the authority of the one that it sends along', leaf + intermediate, root, true],
  ['the authority of one that it does not send along', leaf, root, false],
  ['somebody else', leaf + intermediate, await own('a'), false],
  ['somebody of the same name', await own('a'), await own('a'), false],
  ['nobody', leaf, '', false],
] as const) {
  test(`a server is ${trusted ? '' : 'not '}trusted by whoever trusts ${what}`, () => {
    assert.equal(isTrusted(chain, bundle), trusted);
  });
}

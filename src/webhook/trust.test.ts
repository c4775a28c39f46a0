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
  ['the certificate itself', leaf, leaf, true],
  ['its CA', leaf, intermediate, true],
  ['its CA, among others', leaf, (await own('a')) + intermediate, true],
  ['the CA of an intermediate in its chain', leaf + intermediate, root, true],
  ['the CA of an intermediate that is not in its chain', leaf, root, false],
  ['another certificate', leaf + intermediate, await own('a'), false],
  ['another certificate of the same name', await own('a'), await own('a'), false],
  ['no certificate', leaf, '', false],
] as const) {
  test(`a server is ${trusted ? '' : 'not '}trusted with a bundle of ${what}`, () => {
    assert.equal(isTrusted(chain, bundle), trusted);
  });
}

import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Cache } from './cache.ts';

const dayMs = 24 * 60 * 60_000;

async function newCache(t: TestContext) {
  const dir = await mkdtemp(join(tmpdir(), 'moorage-cache-'));
  t.after(() => rm(dir, { recursive: true }));
  const cache = new Cache(dir);
  const key = (digit: number) => String(digit).repeat(12);
  return {
    cache,
    key,
    make: (name: string) => cache.ensure(name, (draft) => writeFile(join(draft, 'file'), name)),
    lastUsed: (name: string, daysAgo: number) => {
      const then = new Date(Date.now() - daysAgo * dayMs);
      return utimes(join(dir, name), then, then);
    },
    found: async () => (await readdir(dir)).sort(),
    dir,
  };
}

test('an existing entry is not built again, and a failed build leaves no entry', async (t) => {
  const { cache, make, found, key } = await newCache(t);
  await make(`a-${key(1)}`);
  await cache.ensure(`a-${key(1)}`, () => assert.fail('made again'));
  await assert.rejects(
    cache.ensure(`b-${key(1)}`, () => Promise.reject(new Error('half-way'))),
    /half-way/,
  );
  assert.deepEqual(await found(), [`a-${key(1)}`]);
});

test('an entry is removed after a month without use, and after a week if a newer one replaced it', async (t) => {
  const { make, lastUsed, found, key } = await newCache(t);
  const daysAgo = { [`old-${key(1)}`]: 31, [`rare-${key(1)}`]: 29, [`disk-${key(1)}`]: 8, [`disk-${key(2)}`]: 6 };
  for (const [name, days] of Object.entries(daysAgo)) {
    await make(name);
    await lastUsed(name, days);
  }
  await make(`disk-${key(3)}`);
  assert.deepEqual(await found(), [`disk-${key(2)}`, `disk-${key(3)}`, `rare-${key(1)}`]);
});

test('each request counts as use', async (t) => {
  const { make, lastUsed, found, key } = await newCache(t);
  await make(`old-${key(1)}`);
  await lastUsed(`old-${key(1)}`, 100);
  await make(`old-${key(1)}`);
  await make(`new-${key(1)}`);
  assert.deepEqual(await found(), [`new-${key(1)}`, `old-${key(1)}`]);
});

test('drafts of dead processes are removed, and foreign files are kept', async (t) => {
  const { make, lastUsed, found, key, dir } = await newCache(t);
  for (const name of ['.99999999-draft', `.${process.pid}-draft`, 'runs']) {
    await mkdir(join(dir, name));
    await lastUsed(name, 100);
  }
  await make(`a-${key(1)}`);
  assert.deepEqual(await found(), [`.${process.pid}-draft`, `a-${key(1)}`, 'runs']);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { abortable } from '../base/abortable.ts';
import { ManualClock } from '../base/testing/manual-clock.ts';
import { silentLog } from '../base/testing/silent-log.ts';
import { parseStorageConfig } from './config/device-classes-yaml.ts';
import { ConfiguredPools } from './configured-pools.ts';
import { PoolMissing } from './errors.ts';
import type { OpenPool, PoolSettings, ServedPool } from './pool.ts';

const signal = new AbortController().signal;

/** Pools that only record what happens to them, on volume groups that come and go. */
function setUp() {
  const clock = new ManualClock();
  const present = new Set(['vg1', 'vg2', 'vg3']);
  const events: string[] = [];
  const slow = new Map<string, Promise<void>>();
  const open: OpenPool = async ({ deviceClass }, signal) => {
    await Promise.resolve();
    await abortable(slow.get(deviceClass.name) ?? Promise.resolve(), signal);
    const { name } = deviceClass;
    if (deviceClass.type === 'file' || !present.has(deviceClass.volumeGroup)) throw new PoolMissing(`no ${name} here`);
    events.push(`open ${name}`);
    return {
      name,
      onChange: () => () => undefined,
      refresh: async () => void events.push(`refresh ${name}`),
      reconfigure: ({ deviceClass }: PoolSettings) => events.push(`${name} keeps ${deviceClass.spareBytes >> 30n}`),
      stop: async () => void events.push(`stop ${name}`),
    } as unknown as ServedPool;
  };
  const configured = new ConfiguredPools({ open, clock, log: silentLog });
  const apply = (classes: string) => configured.apply(parseStorageConfig(`device-classes: [${classes}]`), signal);
  const served = () => configured.pools.all().map((pool) => pool.name);
  const news = () => events.splice(0);
  return { clock, present, slow, configured, apply, served, news };
}

const a = '{name: a, volume-group: vg1, default: true}';
const b = '{name: b, volume-group: vg2}';

test('classes are added, changed and removed with the configuration', async () => {
  const { configured, apply, served, news } = setUp();
  await apply(`${a}, ${b}`);
  assert.deepEqual(
    [served(), news()],
    [
      ['a', 'b'],
      ['open a', 'open b'],
    ],
  );
  assert.equal(configured.pools.default?.name, 'a');

  await apply(`${a}, {name: b, volume-group: vg2, spare-gb: 3, default: false}`);
  assert.deepEqual(news(), ['b keeps 3']);
  await apply(`${a}, {name: b, volume-group: vg2, spare-gb: 3}`); // unchanged
  assert.deepEqual(news(), []);

  await apply('{name: b, volume-group: vg3, default: true}, {name: c, volume-group: vg1}');
  assert.deepEqual(news(), ['stop a', 'stop b', 'open b', 'open c']);
  assert.deepEqual(served(), ['b', 'c']);
  assert.equal(configured.pools.default?.name, 'b');
  await configured.stop();
});

test('a removed class is no longer given out while it stops', async () => {
  const { configured, apply, served } = setUp();
  await apply(`${a}, ${b}`);
  const stopped = Promise.withResolvers<void>();
  const leaving = configured.pools.get('b') as ServedPool;
  let servedMeanwhile: string[] = [];
  leaving.stop = async () => {
    servedMeanwhile = served();
    await stopped.promise;
  };
  const applied = apply(`${a}, {name: c, volume-group: vg2}`);
  while (servedMeanwhile.length === 0) await setImmediate();
  await setImmediate();
  assert.deepEqual([servedMeanwhile, served()], [['a'], ['a']], 'and its successor waits');
  stopped.resolve();
  await applied;
  assert.deepEqual(served(), ['a', 'c']);
});

test('a class without its volume group delays no other, and is served when the group appears', async () => {
  const { clock, present, configured, apply, served, news } = setUp();
  present.delete('vg2');
  await apply(`${a}, ${b}`);
  assert.deepEqual(served(), ['a']);
  assert.throws(() => configured.pools.get('b'), { code: 'Unavailable', message: /no b here/ });
  assert.deepEqual([...configured.pools.unavailable().keys()], ['b']);
  assert.deepEqual(
    configured.deviceClasses().map(({ name }) => name),
    ['a', 'b'],
  );

  for (let i = 0; i < 20; i++) await passes(clock, 60_000);
  assert.deepEqual(served(), ['a']);
  present.add('vg2');
  await passes(clock, 60_000); // retried at least every minute
  assert.deepEqual(served(), ['a', 'b']);
  assert.equal(configured.pools.unavailable().size, 0);
  assert.ok(news().includes('open b'));
  await configured.stop();
  assert.equal(clock.timers, 0);
});

test('a class that is slow to open delays no other, and reports that until it is served', async () => {
  const { clock, slow, configured, apply, served } = setUp();
  const activated = Promise.withResolvers<void>();
  slow.set('a', activated.promise);
  const applied = apply(`${a}, ${b}`);
  await passes(clock, 0);
  assert.deepEqual(served(), ['b']);
  await passes(clock, 10_000);
  await applied;
  assert.throws(() => configured.pools.get('a'), { code: 'Unavailable', message: /still being opened/ });

  await apply(`${a}, {name: b, volume-group: vg2, spare-gb: 3}, {name: c, volume-group: vg3}`);
  await passes(clock, 24 * 3600_000);
  assert.deepEqual(served(), ['b', 'c'], 'it is not cancelled');
  activated.resolve();
  await passes(clock, 0);
  assert.deepEqual(served(), ['a', 'b', 'c']);
  await configured.stop();
  assert.equal(clock.timers, 0);
});

test('a class that is removed while it is being opened is not opened further', async () => {
  const { clock, slow, configured, apply, served } = setUp();
  slow.set('a', new Promise(() => undefined));
  const applied = apply(`${a}, ${b}`);
  await passes(clock, 0);
  await passes(clock, 10_000);
  await applied;
  await apply(`${b}, {name: c, volume-group: vg1}`);
  assert.deepEqual(served(), ['b', 'c']);
  await configured.stop();
});

test('a removed class that does not stop delays only classes on the same volume group', async () => {
  const { clock, configured, apply, served } = setUp();
  await apply(`${a}, ${b}`);
  const stopped = Promise.withResolvers<void>();
  (configured.pools.get('b') as ServedPool).stop = () => stopped.promise;
  const applied = apply('{name: b, volume-group: vg3, default: true}, {name: c, volume-group: vg2}');
  await passes(clock, 0);
  await passes(clock, 10_000);
  await applied;
  assert.deepEqual(served(), ['b']);
  stopped.resolve();
  await passes(clock, 0);
  assert.deepEqual(served(), ['b', 'c']);
  await configured.stop();
});

test('a class that hangs in a refresh delays no other, nor itself on another volume group', async () => {
  const { clock, configured, apply, served, news } = setUp();
  const hanging = ['b', 'c', 'd', 'e', 'f'];
  await apply(
    [
      ...hanging.map(
        (name) => `{name: ${name}, volume-group: vg2, type: thin, thin-pool: {name: ${name}, overprovision-ratio: 1}}`,
      ),
      a,
    ].join(),
  );
  for (const name of hanging) {
    (configured.pools.get(name) as ServedPool).refresh = () => new Promise(() => undefined);
  }
  news();
  await passes(clock, 600_000);
  await passes(clock, 600_000);
  assert.deepEqual(news(), ['refresh a', 'refresh a']);
  assert.deepEqual(configured.slowest, { key: 'b on vg2', forMs: 600_000 });
  await apply(`${a}, {name: b, volume-group: vg3}`);
  assert.deepEqual(served(), ['a', 'b']);
});

test('lookAgain retries at once', async () => {
  const { clock, present, configured, apply, served } = setUp();
  present.delete('vg2');
  await apply(`${a}, ${b}`);
  for (let i = 0; i < 20; i++) await passes(clock, 60_000);
  present.add('vg2');
  configured.lookAgain();
  await setImmediate();
  assert.deepEqual(served(), ['a', 'b']);
  await configured.stop();
});

test('a class that waits for its volume group can be removed from the configuration', async () => {
  const { clock, present, configured, apply, served, news } = setUp();
  present.delete('vg2');
  await apply(`${a}, ${b}`);
  await apply(a);
  present.add('vg2');
  await passes(clock, 120_000);
  assert.deepEqual(served(), ['a']);
  assert.ok(!news().includes('open b'));
  await configured.stop();
});

test('pools are refreshed periodically', async () => {
  const { clock, configured, apply, news } = setUp();
  await apply(a);
  await passes(clock, 600_000);
  await passes(clock, 600_000);
  assert.deepEqual(news(), ['open a', 'refresh a', 'refresh a']);
  await configured.stop();
  assert.deepEqual(news(), ['stop a']);
});

test('a volume group without a thick class is served by a class of its own, which is not among the configured ones', async () => {
  const { clock, present, configured, apply, served, news } = setUp();
  const serveGroups = (...names: string[]) => configured.serveGroups(new Set(names), signal);
  const all = () => configured.allPools.all().map((pool) => pool.name);
  present.delete('vg3');
  const thin = '{name: c, volume-group: vg2, type: thin, thin-pool: {name: c, overprovision-ratio: 1}}';
  await apply(`${a}, ${thin}`);
  await serveGroups('vg1', 'vg2', 'vg3');
  assert.deepEqual(
    [served(), all()],
    [
      ['a', 'c'],
      ['a', 'c', 'of volume group vg2'],
    ],
  );
  assert.deepEqual([...configured.allPools.unavailable().keys()], ['of volume group vg3']);
  assert.equal(configured.pools.unavailable().size, 0);
  assert.throws(() => configured.pools.get('of volume group vg2'), { name: 'DeviceClassNotFound' });
  news();
  await serveGroups('vg3', 'vg2', 'vg1'); // the same: a group that is missing is not looked for again
  assert.deepEqual(news(), []);

  present.add('vg3');
  configured.lookAgain();
  await passes(clock, 0);
  assert.deepEqual(news(), ['open of volume group vg3']);
  await serveGroups('vg3');
  assert.deepEqual(news(), ['stop of volume group vg2']);
  await serveGroups();
  assert.deepEqual([news(), all()], [['stop of volume group vg3'], ['a', 'c']]);
  await configured.stop();
  assert.equal(clock.timers, 0);
});

test('the class of a volume group gives way to a configured one, and returns when that is removed', async () => {
  const { configured, apply, served, news } = setUp();
  await configured.serveGroups(new Set(['vg1']), signal);
  assert.deepEqual([served(), news()], [[], ['open of volume group vg1']]);
  const isKnown: boolean[] = [];
  configured.allPools.onChange(() =>
    isKnown.push(configured.deviceClasses().some((each) => each.type === 'thick' && each.volumeGroup === 'vg1')),
  );
  await apply(a);
  assert.deepEqual([served(), news()], [['a'], ['stop of volume group vg1', 'open a']]);
  await apply(b);
  assert.deepEqual([served(), news()], [['b'], ['stop a', 'open b', 'open of volume group vg1']]);
  assert.ok(isKnown.length > 1 && isKnown.every(Boolean), 'meanwhile the group is unavailable, not unknown');
  await configured.stop();
});

test('concurrent changes of the configuration and of the volume groups take effect one after the other, the last of each', async () => {
  const { configured, apply, served, news } = setUp();
  await Promise.all([
    apply(b),
    configured.serveGroups(new Set(['vg1', 'vg2']), signal),
    apply(a),
    configured.serveGroups(new Set(['vg2', 'vg3']), signal),
  ]);
  assert.deepEqual(served(), ['a']);
  assert.deepEqual(
    configured.allPools.all().map((pool) => pool.name),
    ['a', 'of volume group vg2', 'of volume group vg3'],
  );
  assert.deepEqual(news(), ['open a', 'open of volume group vg2', 'open of volume group vg3']);
  await configured.stop();
});

test('listeners are notified when classes are added and removed', async () => {
  const { configured, apply } = setUp();
  let calls = 0;
  configured.pools.onChange(() => calls++);
  await apply(a);
  const before = calls;
  assert.ok(before > 0);
  await apply(b);
  assert.ok(calls > before);
  await configured.stop();
});

async function passes(clock: ManualClock, ms: number): Promise<void> {
  clock.advance(ms);
  await setImmediate();
  await setImmediate();
}

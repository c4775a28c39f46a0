import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import { createLog } from '../../base/log.ts';
import { silentLog } from '../../base/testing/silent-log.ts';
import { ConfigFile } from './config-file.ts';
import type { StorageConfig } from './device-classes.ts';

const classes = (...names: string[]) =>
  `device-classes: [${names.map((name) => `{name: ${name}, volume-group: vg-${name}}`).join(', ')}]\n`;
const namesIn = (config: StorageConfig) => config.deviceClasses.map((deviceClass) => deviceClass.name);

async function directory(t: TestContext): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'moorage-config-'));
  t.after(() => rm(path, { recursive: true }));
  return path;
}

/** Watches the file; `next` waits for the next configuration, `refusal` for the next log line. */
async function follow(t: TestContext, path: string) {
  const [configs, refusals] = [queue<StorageConfig>(), queue<string>()];
  const log = createLog('test', 'error', refusals.add);
  const { file, config } = await ConfigFile.open({ path, clock: systemClock, log });
  t.after(() => file.close());
  file.onChange(configs.add);
  return { file, config, next: configs.next, refusal: refusals.next };
}

function queue<T>() {
  const items: T[] = [];
  let wake = () => {};
  return {
    add: (item: T) => {
      items.push(item);
      wake();
    },
    next: async (): Promise<T> => {
      while (items.length === 0) await new Promise<void>((resolve) => (wake = resolve));
      return items.shift() as T;
    },
  };
}

const bounded = { timeout: 120_000 };

test('a change applies, whether written in place or renamed over the file', bounded, async (t) => {
  const path = join(await directory(t), 'lvmd.yaml');
  await writeFile(path, classes('a'));
  const { config, next } = await follow(t, path);
  assert.deepEqual(namesIn(config), ['a']);
  await writeFile(path, classes('a', 'b'));
  assert.deepEqual(namesIn(await next()), ['a', 'b']);
  await writeFile(`${path}~`, classes('c'));
  await rename(`${path}~`, path);
  assert.deepEqual(namesIn(await next()), ['c']);
});

test('a change during the first apply is not lost', bounded, async (t) => {
  const path = join(await directory(t), 'lvmd.yaml');
  await writeFile(path, classes('a'));
  const { file } = await ConfigFile.open({ path, clock: systemClock, log: silentLog });
  t.after(() => file.close());
  await writeFile(path, classes('b'));
  const changed = Promise.withResolvers<StorageConfig>();
  file.onChange(changed.resolve);
  assert.deepEqual(namesIn(await changed.promise), ['b']);
});

test('a change of a mounted ConfigMap applies, though the file itself never changes', bounded, async (t) => {
  const mounted = await directory(t);
  const generation = async (name: string, text: string) => {
    await mkdir(join(mounted, name));
    await writeFile(join(mounted, name, 'lvmd.yaml'), text);
    await symlink(name, join(mounted, '..data_tmp'));
    await rename(join(mounted, '..data_tmp'), join(mounted, '..data')); // as the kubelet does
  };
  await generation('..2026_1', classes('a'));
  await symlink('..data/lvmd.yaml', join(mounted, 'lvmd.yaml'));
  const { next } = await follow(t, join(mounted, 'lvmd.yaml'));
  await generation('..2026_2', classes('b'));
  assert.deepEqual(namesIn(await next()), ['b']);
});

test('an invalid change is refused with its reasons, and the next valid one applies', bounded, async (t) => {
  const path = join(await directory(t), 'lvmd.yaml');
  await writeFile(path, classes('a'));
  const { file, next, refusal } = await follow(t, path);
  await writeFile(path, 'device-classes: [{name: a}]');
  assert.match(
    await refusal(),
    /cannot apply .*, the previous configuration stays in use: .*device-classes\[0\]\.volume-group: is missing/,
  );
  assert.ok(file.problem instanceof Error);
  await rm(path);
  assert.match(await refusal(), /cannot apply .* ENOENT/);
  await writeFile(path, classes('a', 'b'));
  assert.deepEqual(namesIn(await next()), ['a', 'b']);
  assert.equal(file.problem, undefined);
});

test('the first configuration must be valid, or nothing is watched', bounded, async (t) => {
  const path = join(await directory(t), 'lvmd.yaml');
  const options = { path, clock: systemClock, log: silentLog };
  const missing =
    /^NoConfiguration: cannot read configuration .*lvmd.yaml: ENOENT.*; create it, or pass another path with --config$/;
  await assert.rejects(ConfigFile.open(options), missing);
  await writeFile(path, 'colour: red');
  await assert.rejects(ConfigFile.open(options), { name: 'InvalidStorageConfig' });
});

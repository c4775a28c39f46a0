import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { stringify } from 'yaml';
import type { StorageConfig } from './device-classes.ts';
import { InvalidStorageConfig, parseStorageConfig } from './device-classes-yaml.ts';

const corpus = join(import.meta.dirname, 'testdata/lvmd-yaml');

/** The only allowed results: a valid configuration, or a refusal with at least one mistake. */
function parse(text: string): StorageConfig | undefined {
  try {
    const config = parseStorageConfig(text);
    mustMakeSense(config);
    return config;
  } catch (error) {
    if (!(error instanceof InvalidStorageConfig)) throw error;
    assert.ok(error.mistakes.length > 0 && error.mistakes.every((mistake) => mistake.length < 10_000));
    return undefined;
  }
}

function mustMakeSense({ deviceClasses, optionClasses, lvmCommand, socketPath }: StorageConfig): void {
  assert.ok(deviceClasses.length > 0 && lvmCommand.length > 0 && socketPath !== '');
  assert.ok(deviceClasses.filter((deviceClass) => deviceClass.isDefault).length <= 1);
  const grounds = deviceClasses.map((deviceClass) =>
    deviceClass.type === 'file'
      ? deviceClass.path
      : [deviceClass.volumeGroup, deviceClass.type === 'thin' ? deviceClass.thinPool.name : ''].join(' '),
  );
  for (const names of [deviceClasses.map(({ name }) => name), optionClasses.map(({ name }) => name), grounds]) {
    assert.equal(new Set(names).size, names.length);
  }
  for (const deviceClass of deviceClasses) {
    assert.match(deviceClass.name, /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/);
    assert.ok(deviceClass.spareBytes >= 0n);
    if (deviceClass.erase.kind === 'shred') assert.ok(deviceClass.erase.passes >= 1 && deviceClass.erase.passes <= 100);
    if (deviceClass.type === 'file') assert.match(deviceClass.path, /^\//);
    else assert.match(deviceClass.volumeGroup, /^[A-Za-z0-9_+.][A-Za-z0-9_+.-]*$/);
    if (deviceClass.type !== 'thin') continue;
    const { overprovisionRatio, maxDataPercent, maxMetadataPercent } = deviceClass.thinPool;
    assert.ok(overprovisionRatio >= 1 && Number.isFinite(overprovisionRatio));
    for (const percent of [maxDataPercent, maxMetadataPercent]) assert.ok(percent > 0 && percent <= 100);
  }
  const words = [...optionClasses.flatMap(({ options }) => options), ...deviceClasses.flatMap(optionsOf)];
  for (const word of words) assert.match(word, /^[!-~]+$/);
}

function optionsOf(deviceClass: StorageConfig['deviceClasses'][number]): readonly string[] {
  return deviceClass.type === 'file' ? [] : deviceClass.lvcreateOptions;
}

test('malicious files are refused quickly', () => {
  const files = readdirSync(corpus);
  assert.ok(files.length >= 10);
  for (const file of files) {
    const before = process.cpuUsage(); // a busy machine takes longer, but computes no more
    assert.equal(parse(readFileSync(join(corpus, file), 'latin1')), undefined, file);
    assert.ok(process.cpuUsage(before).user < 2_000_000, file);
  }
});

test('a huge file is refused before it is parsed', () => {
  assert.throws(() => parseStorageConfig(`#${' '.repeat(10 * 1024 ** 2)}`), /at most 262144 are read/);
});

const scalar = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    true,
    false,
    0,
    -1,
    1.5,
    64,
    2 ** 53,
    1e308,
    '',
    'a',
    'vg',
    'thin',
    'file',
    '/srv',
    '64k',
  ),
  fc.string(),
  fc.double(),
);
const value = fc.letrec<{ any: unknown }>((tie) => ({
  any: fc.oneof(
    { maxDepth: 3 },
    scalar,
    fc.array(tie('any'), { maxLength: 3 }),
    fc.dictionary(fc.string(), tie('any'), { maxKeys: 3 }),
  ),
})).any;
/** Mostly valid, so that the deeper checks are reached; one field may hold anything. */
function damaged(right: fc.Arbitrary<object>, fields: readonly string[]): fc.Arbitrary<object> {
  const damage = fc.dictionary(fc.constantFrom(...fields), value, { maxKeys: 2 });
  return fc.tuple(right, fc.option(damage, { freq: 1 })).map(([entry, damage]) => ({ ...entry, ...damage }));
}
const name = fc.constantFrom('a', 'b', 'c-1', 'd.2', 'E_3');
const erase = fc.constantFrom(
  {},
  { erase: 'zero' },
  { erase: 'shred', 'erase-passes': 7 },
  { erase: 'none', 'erase-passes': 1 },
);
const ground = fc.constantFrom(
  { 'volume-group': 'vg1', stripe: 2, 'stripe-size': 64 },
  { 'volume-group': 'vg2', type: 'thick', default: true, snapshots: 'copy-on-write' },
  { 'volume-group': 'vg1', type: 'thin', 'thin-pool': { name: 'p', 'overprovision-ratio': 2 } },
  { type: 'file', path: '/srv/a', 'spare-gb': 0 },
  { type: 'file', path: '/srv/a/', default: true },
);
const classEntry = damaged(
  fc.tuple(name, ground, erase).map(([name, ground, erase]) => ({ name, ...ground, ...erase })),
  [
    'name',
    'type',
    'volume-group',
    'thin-pool',
    'path',
    'spare-gb',
    'default',
    'stripe',
    'lvcreate-options',
    'erase',
    'x',
  ],
);
const configEntry = damaged(fc.record({ 'device-classes': fc.array(classEntry, { minLength: 1, maxLength: 4 }) }), [
  'device-classes',
  'lvcreate-option-classes',
  'lvm-command-prefix',
  'socket-name',
  'x',
]);

test('any file content is either parsed or refused', () => {
  let accepted = 0;
  fc.assert(
    fc.property(configEntry, (entry) => {
      if (parse(stringify(entry))) accepted++;
    }),
    { numRuns: 500 },
  );
  fc.assert(
    fc.property(value, (entry) => void parse(stringify(entry))),
    { numRuns: 200 },
  );
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => void parse(text)),
    { numRuns: 300 },
  );
  assert.ok(accepted > 20, `only ${accepted} were right, so the deeper checks were hardly reached`);
});

test('a valid file with any cut or changed byte is either parsed or refused', () => {
  const good = readFileSync(join(import.meta.dirname, 'testdata/good-lvmd.yaml'), 'utf8');
  assert.equal(parse(good)?.deviceClasses.length, 4);
  fc.assert(
    fc.property(fc.nat(good.length - 1), fc.nat(127), (at, code) => {
      parse(good.slice(0, at));
      parse(good.slice(0, at) + String.fromCharCode(code) + good.slice(at + 1));
    }),
    { numRuns: 300 },
  );
});

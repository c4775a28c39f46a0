import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { parseStorageConfig } from '../../src/engine/config/device-classes-yaml.ts';
import { parseSchedulerConfig } from '../../src/scheduler/scheduler-config.ts';
import { chartDir, find, helm, type Rendered, render } from './chart.ts';
import { harmfulChanges, type Schema } from './schema-changes.ts';

const path = (file: string) => join(import.meta.dirname, 'previous', file);
const read = (file: string) => readFile(path(file), 'utf8');

interface Version {
  readonly name: string;
  readonly served: boolean;
  readonly storage: boolean;
  readonly selectableFields: readonly { readonly jsonPath: string }[];
  readonly schema: { readonly openAPIV3Schema: Schema };
}

function versionsOf(crd: Rendered): readonly Version[] {
  return (crd['spec'] as { versions: readonly Version[] }).versions;
}

/** Messages of new rules that were reviewed, each with the reason why it harms no existing object and no older agent. */
const harmlessRules: ReadonlySet<string> = new Set([
  // It compares with the old value, and no version of Moorage or TopoLVM has ever changed or removed it.
  'volumeID cannot be changed once it is set; it says which volume this is',
]);

function withoutHarmlessRules(schema: Schema): Schema {
  const rules = schema['x-kubernetes-validations'] as readonly { readonly message: string }[];
  return { ...schema, 'x-kubernetes-validations': rules.filter(({ message }) => !harmlessRules.has(message)) };
}

test('LogicalVolumes of the previous version can be read and updated, and lose nothing', async () => {
  const previous = parse(await read('crd.yaml')) as Rendered;
  const current = find(await render(), 'CustomResourceDefinition', previous.metadata.name);
  for (const { name, served, selectableFields, schema } of versionsOf(previous)) {
    const now = versionsOf(current).find((version) => version.name === name) ?? assert.fail(`there is no ${name}`);
    assert.ok(now.served || !served, 'agents that are not upgraded yet use it');
    for (const field of selectableFields) {
      assert.ok(
        now.selectableFields.some(({ jsonPath }) => jsonPath === field.jsonPath),
        field.jsonPath,
      );
    }
    assert.deepEqual(harmfulChanges(schema.openAPIV3Schema, withoutHarmlessRules(now.schema.openAPIV3Schema)), []);
  }
  const stored = (crd: Rendered) => versionsOf(crd).find(({ storage }) => storage)?.name;
  assert.equal(stored(current), stored(previous), 'after a rollback, stored objects must be readable');
});

test('an lvmd.yaml of the previous version is accepted', async () => {
  const { deviceClasses, optionClasses } = parseStorageConfig(await read('lvmd.yaml'));
  assert.deepEqual(
    deviceClasses.map(({ name, type }) => [name, type]),
    [
      ['ssd', 'thick'],
      ['shredded', 'thick'],
      ['thin', 'thin'],
      ['files', 'file'],
    ],
  );
  assert.equal([...optionClasses].length, 1);
});

test('a scheduler.yaml of the previous version is accepted', async () => {
  assert.equal(parseSchedulerConfig(await read('scheduler.yaml')).divisors.of('ssd'), 5);
});

test('values of the previous version are accepted', async () => {
  await helm('template', 'moorage', chartDir, `--values=${path('values.yaml')}`);
});

test('schema changes that would harm existing objects are found', () => {
  const old: Schema = {
    type: 'object',
    required: ['name'],
    properties: { name: { type: 'string' }, access: { type: 'string', enum: ['ro', 'rw'] } },
  };
  const changed = (change: Partial<Schema>) => harmfulChanges(old, { ...old, ...change });
  const { name = {}, access = {} } = old.properties ?? {};
  assert.deepEqual(changed({ description: 'said otherwise' }), []);
  assert.deepEqual(changed({ properties: { name, access, size: { type: 'string' } } }), []);
  assert.deepEqual(changed({ properties: { name, access: { ...access, enum: ['ro', 'rw', 'rx'] } } }), []);
  assert.deepEqual(changed({ properties: { name } }), ['.access is gone']);
  assert.deepEqual(changed({ required: ['name', 'access'] }), ['.access is required now']);
  assert.deepEqual(changed({ properties: { name, access: { ...access, enum: ['ro'] } } }), ['.access allows less']);
  assert.deepEqual(changed({ properties: { name: { type: 'string', maxLength: 9 }, access } }), [
    '.name has another maxLength',
  ]);
});

import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { filesystems } from '../src/filesystem/filesystem.ts';
import { programs } from './image/contents.ts';

test('production code names a filesystem only in its own file', () => {
  const files = globSync('src/**/*.ts').filter((file) => !/\.test\.ts$|\/testing\//.test(file));
  for (const { name } of filesystems) {
    const naming = files.filter((file) => readFileSync(file, 'utf8').includes(`'${name}'`));
    assert.deepEqual(naming, [`src/filesystem/${name}.ts`]);
  }
});

test('the image has the programs that create, grow and check each filesystem', () => {
  const inImage = new Set(Object.values(programs).flat());
  for (const filesystem of filesystems) {
    const [mkfs] = filesystem.mkfs({ devicePath: '/dev/v', uuid: 'u', options: [], again: false });
    const [growth] = filesystem.growth('/dev/v', '/at');
    const [check = ''] = filesystem.check.split(' ');
    for (const program of [mkfs, growth, check]) assert.ok(inImage.has(program), program);
  }
});

test("the chart's policy for StorageClasses accepts exactly these filesystems, and the default", () => {
  const policy = readFileSync('deploy/helm/moorage/templates/storageclass-policy.yaml', 'utf8');
  const [, accepted = ''] = /variables\.parameters\[name\] in (\[[^\]]*\])/.exec(policy) ?? [];
  assert.deepEqual(JSON.parse(accepted), ['', ...filesystems.map(({ name }) => name)]);
});

test("the chart's StorageClasses offer exactly these filesystems", () => {
  const schema = readFileSync('deploy/helm/moorage/values.schema.json', 'utf8');
  const [, offered = ''] = /"fsType": \{\s*"enum": (\[[^\]]*\])/.exec(schema) ?? [];
  assert.deepEqual(
    JSON.parse(offered),
    filesystems.map(({ name }) => name),
  );
});

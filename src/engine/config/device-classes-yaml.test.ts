import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { InvalidStorageConfig, parseStorageConfig } from './device-classes-yaml.ts';

function mistakesIn(yaml: string): readonly string[] {
  try {
    parseStorageConfig(yaml);
    return [];
  } catch (error) {
    assert.ok(error instanceof InvalidStorageConfig);
    return error.mistakes;
  }
}

test('a TopoLVM configuration is read unchanged', () => {
  const config = parseStorageConfig(`
socket-name: /run/topolvm/other.sock
lvm-command-prefix: [/sbin/lvm]
device-classes:
  - name: ssd
    volume-group: myvg1
    default: true
    spare-gb: 5
  - name: striped
    type: thick
    volume-group: multi-pv-vg
    stripe: 2
    stripe-size: "64"
    lvcreate-options: ["--type", "raid10"]
  - name: thin
    type: thin
    volume-group: myvg1
    thin-pool:
      name: pool0
      overprovision-ratio: 5.0
lvcreate-option-classes:
  - name: raid1
    options: ["--type=raid1", -m, 1]
`);
  assert.deepEqual(config, {
    socketPath: '/run/topolvm/other.sock',
    lvmCommand: ['/sbin/lvm'],
    optionClasses: [{ name: 'raid1', options: ['--type=raid1', '-m', '1'] }],
    deviceClasses: [
      {
        type: 'thick',
        name: 'ssd',
        isDefault: true,
        spareBytes: 5n * 1024n ** 3n,
        volumeGroup: 'myvg1',
        stripes: 0,
        stripeSize: undefined,
        lvcreateOptions: [],
        snapshots: 'none',
        erase: { kind: 'none' },
      },
      {
        type: 'thick',
        name: 'striped',
        isDefault: false,
        spareBytes: 10n * 1024n ** 3n,
        volumeGroup: 'multi-pv-vg',
        stripes: 2,
        stripeSize: '64',
        lvcreateOptions: ['--type', 'raid10'],
        snapshots: 'none',
        erase: { kind: 'none' },
      },
      {
        type: 'thin',
        name: 'thin',
        isDefault: false,
        spareBytes: 10n * 1024n ** 3n,
        volumeGroup: 'myvg1',
        stripes: 0,
        stripeSize: undefined,
        lvcreateOptions: [],
        thinPool: { name: 'pool0', overprovisionRatio: 5, maxDataPercent: 90, maxMetadataPercent: 85 },
        erase: { kind: 'none' },
      },
    ],
  });
});

test('defaults are those of TopoLVM', () => {
  const config = parseStorageConfig('device-classes: [{name: ssd, type: "", volume-group: vg}]');
  assert.equal(config.socketPath, '/run/topolvm/lvmd.sock');
  assert.equal(config.lvmCommand.join(' '), '/usr/bin/nsenter -m -u -i -n -p -t 1 /sbin/lvm');
  assert.equal(config.deviceClasses[0]?.spareBytes, 10n * 1024n ** 3n);
});

test('a file class has a path', () => {
  const [files] = parseStorageConfig(
    'device-classes: [{name: files, type: file, path: /srv//volumes/, spare-gb: 0}]',
  ).deviceClasses;
  assert.deepEqual(files, {
    type: 'file',
    name: 'files',
    isDefault: false,
    spareBytes: 0n,
    path: '/srv/volumes',
    erase: { kind: 'none' },
  });
});

test('every mistake is reported at once, with its path and what is allowed', () => {
  assert.deepEqual(
    mistakesIn(`
colour: red
device-classes:
  - name: fast
    type: thin
    volume-group: vg1
    thin-pool: {name: pool, overprovision-ratio: 0.5, max-data-percent: 101}
  - {name: quick, type: slow, volume-group: vg}
  - name: -bad
    spare-gb: lots
    stripe: 1.5
    volumegroup: vg2
  - 5
  - {name: f, type: file, path: relative, stripe: 2, erase: burn, erase-passes: 0}
  - {name: t, volume-group: -vg, thin-pool: {name: p}, lvcreate-options: [--type raid1, "it's"]}
lvcreate-option-classes: [{options: [5, true]}]
`),
    [
      'device-classes[0].thin-pool.overprovision-ratio: must be 1.0 or more',
      'device-classes[0].thin-pool.max-data-percent: must be 100 or less',
      'device-classes[1].type: must be thick, thin or file',
      'device-classes[2].name: must start and end with a letter or digit, with only letters, digits, "-", "_" and "." between',
      'device-classes[2].spare-gb: must be a number',
      'device-classes[2].volume-group: is missing',
      'device-classes[2].stripe: must be a whole number',
      'device-classes[2].volumegroup: is not a known field; remove it or correct its spelling',
      'device-classes[3]: must be a mapping',
      'device-classes[4].erase: must be none, discard, zero or shred',
      'device-classes[4].erase-passes: must be 1 or more',
      'device-classes[4].path: must be an absolute path',
      'device-classes[4].stripe: is for classes of type thick; remove it, or correct type',
      'device-classes[5].volume-group: must be a name that LVM allows: at most 127 letters, digits and "_+.-", not beginning with "-"',
      'device-classes[5].lvcreate-options[0]: must be one word without spaces; write an option and its value as two entries',
      'device-classes[5].lvcreate-options[1]: must not contain quotes, "\\" or "#"',
      'device-classes[5].thin-pool: is for classes of type thin; remove it, or correct type',
      'lvcreate-option-classes[0].name: is missing',
      'lvcreate-option-classes[0].options[1]: must be text',
      'colour: is not a known field; remove it or correct its spelling',
    ],
  );
});

test('classes must not contradict each other', () => {
  assert.deepEqual(
    mistakesIn(`
device-classes:
  - {name: a, volume-group: vg, default: true}
  - {name: a, volume-group: vg, default: true}
  - {name: c, type: file, path: /x}
  - {name: d, type: file, path: /y/../x/}
  - {name: e, volume-group: vg2, snapshots: copy-on-write, erase: discard}
`),
    [
      'device-classes[1].name: is the same as device-classes[0].name; give each class a unique name',
      'device-classes[1].default: is the same as device-classes[0].default; only one class can be the default',
      'device-classes[1].volume-group: is the same as device-classes[0].volume-group; a volume group serves one thick class',
      'device-classes[3].path: is the same as device-classes[2].path; give each class its own directory',
      'device-classes[4].erase: cannot be discard with snapshots: copy-on-write, as these and their origins do not support discards; use zero, shred or none, or leave snapshots out',
    ],
  );
});

test('a file that is not a configuration is reported as such', () => {
  assert.deepEqual(mistakesIn(''), ['the file: must be a mapping']);
  assert.deepEqual(mistakesIn('{}'), ['device-classes: is missing']);
  assert.deepEqual(mistakesIn('device-classes: []'), ['device-classes: must name at least one device class']);
  assert.match(mistakesIn('device-classes: [')[0] ?? '', /^not YAML: .* at line 1/);
});

test('the examples in the documentation are valid', () => {
  const page = readFileSync(new URL('../../../docs/configuration.md', import.meta.url), 'utf8');
  const examples = [...page.matchAll(/^```yaml\n(.*?)^```$/gms)].map(([, yaml = '']) => yaml);
  assert.ok(examples.length > 0);
  for (const example of examples) assert.deepEqual(mistakesIn(example), []);
});

test('every field is documented', () => {
  const page = readFileSync(new URL('../../../docs/configuration.md', import.meta.url), 'utf8');
  const everyField = readFileSync(new URL('testdata/good-lvmd.yaml', import.meta.url), 'utf8');
  assert.deepEqual(mistakesIn(everyField), []);
  for (const [, field] of everyField.matchAll(/^[\s-]*([a-z-]+):/gm))
    assert.ok(page.includes(String(field)), `${field} is not documented`);
});

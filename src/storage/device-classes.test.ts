import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InvalidStorageConfig, parseStorageConfig } from './device-classes.ts';

function mistakesIn(yaml: string): readonly string[] {
  try {
    parseStorageConfig(yaml);
    return [];
  } catch (error) {
    assert.ok(error instanceof InvalidStorageConfig);
    return error.mistakes;
  }
}

test('a TopoLVM configuration is read as it is', () => {
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
lvcreate-option-classes: []
`);
  assert.deepEqual(config, {
    socketPath: '/run/topolvm/other.sock',
    lvmCommand: ['/sbin/lvm'],
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
    'device-classes: [{name: files, type: file, path: /srv/volumes, spare-gb: 0}]',
  ).deviceClasses;
  assert.deepEqual(files, { type: 'file', name: 'files', isDefault: false, spareBytes: 0n, path: '/srv/volumes' });
});

test('every mistake is reported at once, with its path and what is allowed', () => {
  assert.deepEqual(
    mistakesIn(`
colour: red
device-classes:
  - name: fast
    type: thin
    volume-group: vg1
    thin-pool: {name: pool}
  - name: -bad
    spare-gb: lots
    stripe: 1.5
    volumegroup: vg2
  - 5
  - {name: f, type: file, path: relative}
lvcreate-option-classes: [{name: raid, options: []}]
`),
    [
      'device-classes[0].type: must be thick or file; thin is not supported yet',
      'device-classes[1].name: must start and end with a letter or digit, with only letters, digits, "-", "_" and "." between',
      'device-classes[1].spare-gb: must be a number',
      'device-classes[1].volume-group: is missing',
      'device-classes[1].stripe: must be a whole number',
      'device-classes[1].volumegroup: is not a known field; remove it or correct its spelling',
      'device-classes[2]: must be a mapping',
      'device-classes[3].path: must be an absolute path',
      'lvcreate-option-classes: is not supported yet; remove it',
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
  - {name: d, type: file, path: /x}
`),
    [
      'device-classes[1].name: is the same as device-classes[0].name; give each class a name of its own',
      'device-classes[1].default: is the same as device-classes[0].default; only one class can be the default',
      'device-classes[1].volume-group: is the same as device-classes[0].volume-group; a volume group serves one thick class',
      'device-classes[3].path: is the same as device-classes[2].path; give each class a directory of its own',
    ],
  );
});

test('what is no configuration at all is said so', () => {
  assert.deepEqual(mistakesIn(''), ['the file: must be a mapping']);
  assert.deepEqual(mistakesIn('{}'), ['device-classes: is missing']);
  assert.deepEqual(mistakesIn('device-classes: []'), ['device-classes: must name at least one device class']);
  assert.match(mistakesIn('device-classes: [')[0] ?? '', /^not YAML: .* at line 1/);
});

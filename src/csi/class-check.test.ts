import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StorageClass } from '../kube/resource.ts';
import { checkSnapshotClass, checkStorageClass } from './class-check.ts';

const served = new Map([
  ['a', new Set(['', 'ssd'])],
  ['b', new Set(['hdd'])],
]);

function check(given: Record<string, string>, rest: Partial<StorageClass> = {}) {
  return checkStorageClass(
    { metadata: { name: 'fast' }, provisioner: 'topolvm.io', parameters: given, ...rest },
    served,
  );
}

const secret = {
  'csi.storage.k8s.io/node-stage-secret-name': 'key',
  'csi.storage.k8s.io/node-stage-secret-namespace': '${pvc.namespace}',
};

for (const [name, given] of [
  ['without parameters', {}],
  [
    "with TopoLVM's parameters",
    {
      'csi.storage.k8s.io/fstype': 'xfs',
      'topolvm.io/device-class': 'ssd',
      'topolvm.io/lvcreate-option-class': 'raid',
    },
  ],
  ['with an empty filesystem', { 'csi.storage.k8s.io/fstype': '' }],
  ["with csi-provisioner's old name for the filesystem", { fsType: 'btrfs' }],
  ['with encryption and its Secret', { 'moorage.dev/encryption': 'luks2', ...secret }],
  [
    'with encryption and an old name for its Secret',
    { 'moorage.dev/encryption': 'luks2', csiNodeStageSecretName: 'key' },
  ],
  ['with options of its filesystem', { fstype: 'xfs', 'moorage.dev/mkfs-options': '-m reflink=0' }],
] as const) {
  test(`a class ${name} is accepted without a word`, () => {
    assert.deepEqual(check(given), { errors: [], warnings: [] });
  });
}

for (const [given, ...errors] of [
  [
    { 'topolvm.io/device-clas': 'ssd' },
    /^unknown name "topolvm.io\/device-clas".*did you mean topolvm.io\/device-class\?$/,
  ],
  [{ 'moorage.dev/device-class': 'ssd' }, /did you mean topolvm.io\/device-class\?$/],
  [{ 'topolvm.cybozu.com/device-class': 'ssd' }, /did you mean topolvm.io\/device-class\?$/],
  [{ 'device-class': 'ssd' }, /did you mean topolvm.io\/device-class\?$/],
  [{ 'csi.storage.k8s.io/fsType': 'xfs' }, /did you mean csi.storage.k8s.io\/fstype\?$/],
  [{ encrypted: 'true' }, /did you mean moorage.dev\/encryption\?$/],
  [
    { 'moorage.dev/colour': 'red' },
    /^unknown name "moorage.dev\/colour" in parameters; use one of topolvm.io\/device-class,/,
  ],
  [{ 'moorage.dev/mkfs-options': '-F' }, /^moorage.dev\/mkfs-options contains "-F".*for ext4/],
  [{ 'moorage.dev/root-mode': '0999' }, /^moorage.dev\/root-mode is "0999"/],
  [
    { 'moorage.dev/on-node-removal': 'forget' },
    /^moorage.dev\/on-node-removal is "forget"; use one of drop, keep, wait$/,
  ],
  [{ 'moorage.dev/encryption': 'aes' }, /^moorage.dev\/encryption is "aes"; use luks2/],
  [{ 'moorage.dev/encryption': 'luks2' }, /requires a Secret with the key; set .*secret-name and .*secret-namespace$/],
  [{ 'moorage.dev/colour': 'red', 'moorage.dev/root-mode': '9' }, /colour/, /root-mode/],
] as const) {
  test(`a class with ${JSON.stringify(given)} is refused`, () => {
    const found = check(given);
    assert.equal(found.errors.length, errors.length, found.errors.join('\n'));
    errors.forEach((expected, index) => assert.match(found.errors[index] ?? '', expected));
  });
}

test('volumes that are created before their pods are a warning', () => {
  assert.match(check({}, { volumeBindingMode: 'Immediate' }).warnings.join(), /Immediate.*; use WaitForFirstConsumer$/);
  assert.deepEqual(check({}, { volumeBindingMode: 'WaitForFirstConsumer' }).warnings, []);
});

test('parameters of other drivers have no effect, which is a warning', () => {
  const { errors, warnings } = check({ type: 'io1', iopsPerGB: '10' });
  assert.deepEqual(errors, []);
  assert.match(warnings.join('\n'), /"type" has no effect.*\n.*"iopsPerGB" has no effect/);
});

test('a device class that no node has is a warning, unless no node has reported yet', () => {
  const of = (deviceClass: string | undefined, nodes: typeof served) =>
    checkStorageClass(
      { provisioner: 'topolvm.io', parameters: deviceClass ? { 'topolvm.io/device-class': deviceClass } : {} },
      nodes,
    ).warnings.join();
  assert.match(
    of('ssd2', served),
    /^no node has device class "ssd2" \(topolvm.io\/device-class\); did you mean ssd\?$/,
  );
  assert.match(of('nvme', served), /; kubectl moorage nodes shows those that nodes have$/);
  assert.match(
    of(undefined, new Map([['a', new Set(['ssd'])]])),
    /^no node has a default device class; set topolvm.io\/device-class: kubectl moorage nodes shows those that nodes have$/,
  );
  assert.equal(of('nvme', new Map()), '');
});

test('only the nodes of allowedTopologies serve a class', () => {
  const of = (deviceClass: string, ...values: string[]) => {
    const allowedTopologies = [{ matchLabelExpressions: [{ key: 'topology.topolvm.io/node', values }] }];
    return check({ 'topolvm.io/device-class': deviceClass }, { allowedTopologies }).warnings.join();
  };
  assert.equal(of('ssd', 'a', 'nope'), '');
  assert.match(of('ssd', 'b'), /^no node of allowedTopologies has device class "ssd" /);
  assert.equal(
    of('ssd', 'nope'),
    'allowedTopologies leaves out every node that has storage; list names of nodes under topology.topolvm.io/node',
  );
});

test('a VolumeSnapshotClass has only the parameters of csi-snapshotter', () => {
  assert.deepEqual(checkSnapshotClass({ 'csi.storage.k8s.io/snapshotter-secret-name': 'key' }), {
    errors: [],
    warnings: [],
  });
  assert.deepEqual(checkSnapshotClass({ 'topolvm.io/device-class': 'ssd' }).errors, [
    'unknown name "topolvm.io/device-class" in parameters; remove it',
  ]);
  assert.match(checkSnapshotClass({ fstype: 'xfs' }).warnings.join(), /"fstype" has no effect/);
});

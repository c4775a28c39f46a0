import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sidecars } from '../../worlds/cluster/binaries.ts';
import { formatRight, rightsOf } from '../cluster/rights.ts';
import { chartDir, find, helm, namespace, objectsIn, type Rendered, render, renderText, type Value } from './chart.ts';

const gate = 'VolumeAttributesClass=true';
const beta = ['--api-versions', 'storage.k8s.io/v1beta1/VolumeAttributesClass'];
const current: readonly Value[] = [
  'image.csi.csiProvisioner=registry.example.org:5000/csi-provisioner:v6.1.0',
  'image.csi.csiResizer=registry.example.org:5000/csi-resizer:v2.0.0@sha256:0123',
];
const unspecified: readonly Value[] = [
  'image.csi.csiProvisioner=registry.example.org:5000/csi-provisioner@sha256:0123',
  'image.csi.csiResizer=registry.example.org/csi-resizer:latest',
];

interface Container {
  readonly name: string;
  readonly image: string;
  readonly args: readonly string[];
}

function containersOf(objects: readonly Rendered[]): ReadonlyMap<string, Container> {
  const { spec } = find(objects, 'Deployment', 'moorage-controller') as unknown as {
    spec: { template: { spec: { containers: readonly Container[] } } };
  };
  return new Map(spec.template.spec.containers.map((container) => [container.name, container]));
}

/** The feature gates of csi-provisioner and csi-resizer. */
async function gates(values: readonly Value[], ...words: readonly string[]): Promise<readonly string[]> {
  const containers = containersOf(objectsIn(await renderText(values, ...words)));
  const flag = '--feature-gates=';
  return ['csi-provisioner', 'csi-resizer'].map(
    (name) =>
      containers
        .get(name)
        ?.args.find((arg) => arg.startsWith(flag))
        ?.slice(flag.length) ?? '',
  );
}

test('the sidecars have the versions that the tests on clusters use', async () => {
  const containers = containersOf(await render('snapshot.enabled=true'));
  for (const name of ['csi-provisioner', 'csi-resizer', 'csi-snapshotter'] as const) {
    assert.equal(containers.get(name)?.image, `registry.k8s.io/sig-storage/${name}:${sidecars[name].version}`);
  }
});

test('older sidecars get the feature gate only on a cluster that serves the API which they read', async () => {
  assert.deepEqual(await gates([]), ['Topology=true', '']);
  assert.deepEqual(await gates([], ...beta), [`Topology=true,${gate}`, gate]);
});

test('current sidecars need no feature gate', async () => {
  assert.deepEqual(await gates(current), ['Topology=true', '']);
  assert.deepEqual(await gates(current, ...beta), ['Topology=true', '']);
});

test('sidecars of an unknown version get no feature gate, and the rights of current ones', async () => {
  assert.deepEqual(await gates(unspecified, ...beta), ['Topology=true', '']);
  assert.deepEqual(await snapshotRights(unspecified), await snapshotRights(current));
});

test('only a csi-provisioner that protects snapshots may change them', async () => {
  const get = 'get volumesnapshots.snapshot.storage.k8s.io';
  assert.deepEqual(await snapshotRights([]), [get]);
  const more = ['list', 'update', 'watch'].map((verb) => get.replace('get', verb));
  assert.deepEqual(await snapshotRights(current), [get, ...more]);
});

async function snapshotRights(values: readonly Value[]): Promise<readonly string[]> {
  const role = find(await render(...values), 'ClusterRole', 'moorage-csi-provisioner');
  return rightsOf(role)
    .filter(({ resource }) => resource === 'volumesnapshots')
    .map(formatRight)
    .sort();
}

test('the notes after an installation say which sidecars IO limits need', async () => {
  const notes = async (values: readonly Value[]) => {
    const set = values.flatMap((value) => ['--set', value]);
    const shown = await helm('install', 'moorage', chartDir, `--namespace=${namespace}`, '--dry-run=client', ...set);
    return shown.split('\nNOTES:\n')[1] ?? assert.fail('there are no notes');
  };
  const needed = /csi-provisioner 6 and csi-resizer 2 or newer/;
  assert.match(await notes([]), /IO limits are off/);
  assert.match(await notes([]), needed);
  assert.match(await notes(unspecified), /IO limits may be off/);
  assert.match(await notes(unspecified), needed);
  assert.doesNotMatch(await notes(current), /IO limits/);
  assert.match(await notes(current.slice(1)), /IO limits are off/, 'both sidecars are needed');
});

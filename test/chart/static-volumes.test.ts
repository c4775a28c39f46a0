import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import manifest from '../../package.json' with { type: 'json' };
import { runCaptured } from '../../src/base/testing/run-captured.ts';
import { moorage } from '../../src/commands.ts';
import type { PersistentVolume, Stored } from '../../src/kube/resource.ts';
import { noDefaults, parseDefaults } from '../../src/local-pv/defaults.ts';
import { staticVolume, unknownAnnotations } from '../../src/local-pv/static-volume.ts';
import { formatRight, rightsOf } from '../cluster/rights.ts';
import { type ChartName, dirOf, find, helm, namespace, objectsIn, type Rendered, textOf, type Value } from './chart.ts';

const render = async (chart: ChartName, ...values: readonly Value[]) => objectsIn(await textOf(chart, values));
const enabled: Value = 'localPv.enabled=true';
const required: readonly Value[] = ['storageClass=search', 'size=30Gi', 'nodes={node01,node02}'];
const set = (values: readonly Value[]) => values.flatMap((value) => ['--set', value]);

for (const [chart, values] of [
  ['local-pv', []],
  ['local-volumes', required],
] as const) {
  test(`helm lint reports no problem in ${chart}, which has the version of the program`, async () => {
    await helm('lint', '--strict', dirOf(chart), ...set(values));
    const { version, appVersion } = parse(await readFile(join(dirOf(chart), 'Chart.yaml'), 'utf8')) as Record<
      string,
      string
    >;
    assert.deepEqual([version, appVersion], [manifest.version, manifest.version]);
  });
}

test('a packaged local-pv contains what it shares with the chart moorage', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'moorage-package-'));
  t.after(() => rm(dir, { recursive: true }));
  await helm('package', dirOf('local-pv'), '--destination', dir);
  const packaged = join(dir, `local-pv-${manifest.version}.tgz`);
  assert.equal(await helm('template', 'local-pv', packaged, '--namespace', namespace), await textOf('local-pv', []));
});

test('both charts have the same values for static volumes', async () => {
  const schemaOf = async (chart: ChartName) =>
    JSON.parse(await readFile(join(dirOf(chart), 'values.schema.json'), 'utf8')) as {
      properties: { localPv: { properties: Record<string, unknown> } };
      $defs: Record<string, unknown>;
    };
  const [main, alone] = [await schemaOf('moorage'), await schemaOf('local-pv')];
  const { enabled: _, ...properties } = main.properties.localPv.properties;
  assert.deepEqual(alone.properties.localPv.properties, properties);
  assert.deepEqual(alone.$defs['staticVolumeOptions'], main.$defs['staticVolumeOptions']);
});

interface PodSpec {
  readonly hostPID?: boolean;
  readonly containers: readonly {
    readonly args: readonly string[];
    readonly env?: readonly { readonly name: string }[];
    readonly volumeMounts?: readonly { readonly mountPath: string; readonly mountPropagation?: string }[];
  }[];
}

function podOf(objects: readonly Rendered[], kind: string, name: string): PodSpec {
  return (find(objects, kind, name)['spec'] as { template: { spec: PodSpec } }).template.spec;
}

async function agentOf(chart: ChartName, ...values: readonly Value[]) {
  const { containers, hostPID = false } = podOf(await render(chart, ...values), 'DaemonSet', 'moorage-node');
  const [{ args, env = [], volumeMounts = [] }] = containers as [PodSpec['containers'][number]];
  return { args, hostPID, env: env.map(({ name }) => name), mounts: volumeMounts };
}

for (const [chart, on] of [
  ['moorage', [enabled]],
  ['local-pv', []],
] as const) {
  test(`${chart}: the agents get the flags and the directories of static volumes`, async () => {
    const { args, env, mounts } = await agentOf(chart, ...on, 'localPv.mountBase=/srv/pv', 'localPv.release=true');
    assert.deepEqual(
      args.filter((word) => /local-pv|release/.test(word)),
      [
        '--local-pv',
        '--local-pv-mount-base=/srv/pv',
        '--local-pv-mounts=agent',
        '--local-pv-defaults=moorage-local-pv',
        '--release',
      ],
    );
    assert.ok(env.includes('POD_NAMESPACE'));
    for (const path of ['/srv/pv', '/run/moorage/local-pv']) {
      const { mountPropagation } = mounts.find(({ mountPath }) => mountPath === path) ?? {};
      assert.equal(mountPropagation, 'Bidirectional', `mounts in ${path} appear on the node`);
    }
  });

  test(`${chart}: agents and controller read the defaults, which are valid`, async () => {
    const values: readonly Value[] = ['localPv.defaults.vg=bulk', 'localPv.storageClasses.search.onRelease=shred'];
    const objects = await render(chart, ...on, ...values);
    const { data } = find(objects, 'ConfigMap', 'moorage-local-pv') as unknown as { data: Record<string, string> };
    const { general, byStorageClass } = parseDefaults(data);
    assert.deepEqual([general, byStorageClass.get('search')], [{ vg: 'bulk' }, { onRelease: 'shred' }]);
    const [controller] = podOf(objects, 'Deployment', 'moorage-controller').containers;
    assert.ok(controller?.args.includes('--local-pv-defaults=moorage-local-pv'));
    for (const account of ['controller', 'node']) {
      const rights = rightsOf(find(objects, 'Role', `moorage-${account}-static-volumes`)).map(formatRight);
      assert.deepEqual(rights, ['list configmaps moorage-local-pv', 'watch configmaps moorage-local-pv']);
    }
  });

  test(`${chart}: only the Secrets of the list can be read, and only by agents`, async () => {
    const objects = await render(chart, ...on, 'localPv.cryptSecrets={search,db}');
    const roles = objects.filter(({ kind }) => kind === 'Role' || kind === 'ClusterRole');
    const secrets = roles.flatMap((role) => rightsOf(role).map((right) => [role.metadata.name, formatRight(right)]));
    assert.deepEqual(
      secrets.filter(([, right]) => right?.includes('secrets')),
      [
        ['moorage-node-static-volumes', 'get secrets search'],
        ['moorage-node-static-volumes', 'get secrets db'],
      ],
    );
  });
}

test('each container is started with a command and flags that exist', async () => {
  const charts = [
    await render('moorage', enabled, 'localPv.release=true', 'localPv.mounts=systemd'),
    await render('local-pv', 'watcherExtraOptions={-R,-s,-v}'),
  ];
  const started: string[] = [];
  const commands = Object.entries(moorage.commands).map(([name, command]) => {
    return [name, { ...command, run: async () => void started.push(name) }] as const;
  });
  const program = { ...moorage, commands: Object.fromEntries(commands) };
  for (const objects of charts) {
    const agent = podOf(objects, 'DaemonSet', 'moorage-node').containers[0];
    const controller = podOf(objects, 'Deployment', 'moorage-controller').containers[0];
    for (const { args = [] } of [agent ?? assert.fail(), controller ?? assert.fail()]) {
      await runCaptured(program, args, { env: { NODE_NAME: 'node-a' } });
    }
  }
  assert.deepEqual(started, ['node', 'controller', 'node', 'controller']);
});

test('without localPv.enabled, the chart renders nothing of static volumes', async () => {
  assert.doesNotMatch(await textOf('moorage', []), /local-pv|static-volumes/);
});

test('systemd on the node, like its LVM, needs the PID namespace of the node', async () => {
  const imageLvm: Value = 'lvmd.lvmCommandPrefix={/sbin/lvm}';
  assert.equal((await agentOf('moorage', enabled, imageLvm)).hostPID, false);
  assert.equal((await agentOf('moorage', enabled, imageLvm, 'localPv.mounts=systemd')).hostPID, true);
  assert.equal((await agentOf('local-pv')).hostPID, true);
  const files: readonly Value[] = [
    'lvmd.deviceClasses[0].name=files',
    'lvmd.deviceClasses[0].type=file',
    'lvmd.deviceClasses[0].path=/srv/volumes',
  ];
  assert.equal((await agentOf('moorage', ...files)).hostPID, false);
  assert.equal((await agentOf('moorage', ...files, enabled)).hostPID, true, 'static volumes name volume groups');
});

test('local-pv serves no CSI, needs no device classes, and passes the options of k8s-local-pv on', async () => {
  const { args } = await agentOf('local-pv', 'watcherExtraOptions={-R,-s}');
  for (const word of ['--csi=false', '--config=', '-R', '-s']) assert.ok(args.includes(word), word);
  const objects = await render('local-pv');
  const [controller, ...sidecars] = podOf(objects, 'Deployment', 'moorage-controller').containers;
  assert.ok(controller?.args.includes('--csi=false'));
  assert.deepEqual(sidecars, []);
  assert.ok(!objects.some(({ kind }) => ['CSIDriver', 'CustomResourceDefinition', 'StorageClass'].includes(kind)));
});

/** The PersistentVolumes of local-volumes. */
async function volumes(...values: readonly Value[]): Promise<readonly Stored<PersistentVolume>[]> {
  const objects = await render('local-volumes', ...required, ...values);
  const rendered = objects.filter(({ kind }) => kind === 'PersistentVolume');
  return rendered.map((object) => {
    const { metadata, ...rest } = object as unknown as Stored<PersistentVolume>;
    return { ...rest, metadata: { ...metadata, uid: metadata.name } };
  });
}

test('local-volumes renders a class and its volumes, as requests that Moorage accepts', async () => {
  const options: readonly Value[] = [
    'fs=xfs',
    'opts=-i size=512',
    'mountOpts=noexec\\,noatime',
    'vg=fast',
    'cryptSecret=search',
    'autoRelease=true',
  ];
  const all = await volumes(...options);
  const requests = all.map((volume) => staticVolume(volume, noDefaults, '/mnt/pv'));
  assert.deepEqual(
    requests.map(({ name, path }) => [name, path]),
    [
      ['search-node01', '/mnt/pv/search-node01'],
      ['search-node02', '/mnt/pv/search-node02'],
    ],
  );
  assert.deepEqual(all.flatMap(unknownAnnotations), []);
  const [{ filesystem, mkfsOptions, mountOptions, place, cryptSecret, autoRelease, sizeBytes }] = requests as [
    (typeof requests)[number],
  ];
  assert.deepEqual(
    [filesystem.name, mkfsOptions.join(' '), mountOptions],
    ['xfs', '-i size=512', ['noexec', 'noatime']],
  );
  assert.deepEqual([place, cryptSecret, autoRelease], [{ volumeGroup: 'fast' }, 'search', true]);
  assert.equal(sizeBytes, 30n * 1024n ** 3n);
  const storageClass = find(await render('local-volumes', ...required), 'StorageClass', 'search');
  assert.equal(storageClass['provisioner'], 'kubernetes.io/no-provisioner');
  assert.equal(storageClass['volumeBindingMode'], 'WaitForFirstConsumer');
});

test('local-volumes: several volumes of a node are numbered, and each is on its node by the label of the values', async () => {
  const all = await volumes('volumesPerNode=2', 'nodeLabel=kubernetes.io/hostname', 'deviceClass=thin');
  const nodeOf = ({ spec }: PersistentVolume) => {
    const [term] = spec?.nodeAffinity?.required?.nodeSelectorTerms ?? [];
    return term?.matchExpressions?.map(({ key, values = [] }) => `${key} ${values.join()}`).join();
  };
  assert.deepEqual(
    all.map((volume) => [volume.metadata.name, volume.spec?.local?.path, nodeOf(volume)]),
    [
      ['search-node01-1', '/mnt/pv/search-node01-1', 'kubernetes.io/hostname node01'],
      ['search-node01-2', '/mnt/pv/search-node01-2', 'kubernetes.io/hostname node01'],
      ['search-node02-1', '/mnt/pv/search-node02-1', 'kubernetes.io/hostname node02'],
      ['search-node02-2', '/mnt/pv/search-node02-2', 'kubernetes.io/hostname node02'],
    ],
  );
  assert.deepEqual(all.map((volume) => staticVolume(volume, noDefaults, '/mnt/pv').place)[0], { deviceClass: 'thin' });
});

const bad: Record<string, { chart: ChartName; values: readonly Value[]; says: RegExp }> = {
  'a mount base that ends with a slash': { chart: 'moorage', values: ['localPv.mountBase=/mnt/'], says: /mountBase/ },
  'somebody else who mounts': { chart: 'local-pv', values: ['localPv.mounts=fstab'], says: /mounts/ },
  'a default that is no option': { chart: 'local-pv', values: ['localPv.defaults.fstype=xfs'], says: /fstype/ },
  'a word that is no flag': {
    chart: 'local-pv',
    values: ['watcherExtraOptions={release}'],
    says: /watcherExtraOptions/,
  },
  'no storage class': { chart: 'local-volumes', values: ['size=1Gi', 'nodes={a}'], says: /storageClass/ },
  'no nodes': { chart: 'local-volumes', values: ['storageClass=a', 'size=1Gi'], says: /nodes/ },
  'a size without a number': { chart: 'local-volumes', values: [...required, 'size=big'], says: /size/ },
  'no volume per node': { chart: 'local-volumes', values: [...required, 'volumesPerNode=0'], says: /volumesPerNode/ },
  'an unknown value': { chart: 'local-volumes', values: [...required, 'filesystem=xfs'], says: /filesystem/ },
};

for (const [what, { chart, values, says }] of Object.entries(bad)) {
  test(`${chart}: ${what} is rejected with the reason`, async () => {
    await assert.rejects(render(chart, ...values), says);
  });
}

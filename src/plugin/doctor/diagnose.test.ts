import assert from 'node:assert/strict';
import { test } from 'node:test';
import { driverName, parameters } from '../../api/names.ts';
import { persistentVolumeOfTest, volumeOfTest } from '../testing/facts-of-test.ts';
import { diagnosisOf } from './diagnose.ts';
import type { Observed, Reading, Readings } from './observed.ts';
import { doctorScreen } from './screen.ts';
import * as given from './testing/healthy.ts';

const { at, bundle, healthy, lease, meta, nowMs, pod, report, ssd } = given;

function readingsOf(observed: Observed): Readings {
  const objects = Object.entries(observed).filter(([key]) => key !== 'nowMs' && key !== 'version');
  const entries = objects.map(([key, value]) => [key, { kind: 'read', value } satisfies Reading<unknown>]);
  return Object.fromEntries(entries) as Readings;
}

async function diagnosisWith(changes: Partial<Observed>) {
  const observed = { ...(await healthy()), ...changes };
  const about = { nowMs, version: observed.version };
  return { diagnosis: diagnosisOf(readingsOf(observed), about), observed };
}

/** Each finding as `area: severity: sentence`. */
async function found(changes: Partial<Observed>): Promise<string[]> {
  const { diagnosis } = await diagnosisWith(changes);
  return diagnosis.areas.flatMap(({ area, findings }) =>
    findings.map((each) => `${area}: ${each.severity}: ${each.what}`),
  );
}

test('nothing is found in a healthy installation, and each area says what is well', async () => {
  const { diagnosis } = await diagnosisWith({});
  assert.deepEqual(
    diagnosis.areas.filter(({ result }) => result !== 'ok'),
    [],
  );
  assert.equal(diagnosis.healthy, true);
  const screen = doctorScreen(diagnosis, { columns: 100, colours: false });
  assert.match(screen, /^✔ agents +2 agents ready, on 2 nodes$/m);
  assert.match(screen, /^✔ webhook +certificates are valid for 7 days more$/m);
  assert.match(screen, /^✔ versions +Moorage 1\.2\.3; csi-provisioner v5\.3\.0; csi-resizer v1\.14\.0$/m);
  assert.match(screen, /^Nothing found\.$/m);
});

const hostPath =
  'MountVolume.SetUp failed for volume "registration" : hostPath type check failed: /var/lib/kubelet/plugins_registry is not a directory';
const thin = { ...ssd, type: 'thin', thinPool: 'pool0', thin: { dataPercent: 90, metadataPercent: 81 } } as const;
const annotated = { 'f:metadata': { 'f:annotations': { 'f:capacity.topolvm.io/ssd': {} } } };

type Row = readonly [
  about: string,
  change: (good: Observed) => Partial<Observed> | Promise<Partial<Observed>>,
  ...found: RegExp[],
];

const rows: readonly Row[] = [
  [
    'Moorage is not installed',
    () => ({ daemonSets: [], pods: [], csiNodes: [] }),
    /^agents: error: Moorage is not installed/,
    /^controller: error: There is no controller/,
  ],
  [
    'an agent is not ready',
    ({ pods }) => ({ pods: [pod('agent-on-a', 'node', { isReady: false }), ...pods.slice(1)] }),
    /^agents: error: The agent on node a is not ready/,
  ],
  [
    'the directory of the kubelet is another one',
    ({ pods }) => ({
      pods: [pod('agent-on-a', 'node', { isReady: false }), ...pods.slice(1)],
      warnings: [
        {
          metadata: meta('e'),
          eventTime: at(0),
          regarding: { name: 'agent-on-a' },
          reason: 'FailedMount',
          note: hostPath,
        },
      ],
    }),
    /^agents: error: The agent on node a cannot start: the node has no \/var\/lib\/kubelet\/plugins_registry, so/,
  ],
  [
    'an agent is gone',
    ({ pods }) => ({ pods: pods.slice(1) }),
    /^agents: error: Node a had an agent, and has none now/,
  ],
  [
    'a pod of an agent is not created',
    ({ daemonSets }) => ({
      daemonSets: daemonSets.map((each) => ({
        ...each,
        status: { ...each.status, desiredNumberScheduled: 3 } as never,
      })),
    }),
    /^agents: error: DaemonSet moorage-node should run on 3 nodes, and has 2 pods/,
  ],
  [
    'the kubelet does not know the driver',
    ({ csiNodes }) => ({ csiNodes: csiNodes.slice(1) }),
    /^registration: error: The kubelet of node a does not know the driver/,
  ],
  [
    'the label of a node is wrong',
    ({ nodes }) => ({ nodes: nodes.map((each) => ({ ...each, metadata: { ...each.metadata, labels: {} } })) }),
    /^registration: error: Node a has the wrong topology/,
    /^registration: error: Node b has/,
  ],
  ['the CSIDriver is missing', () => ({ csiDrivers: [] }), /^registration: error: CSIDriver topolvm\.io is missing/],
  [
    'a node does not report',
    ({ reports }) => ({ reports: reports.slice(1) }),
    /^reports: error: Node a does not report/,
  ],
  [
    'the report is of an earlier machine',
    ({ reports }) => ({ reports: [report('a', { nodeUID: 'other' }), ...reports.slice(1)] }),
    /^reports: error: The NodeStorage of node a is of an earlier machine/,
  ],
  [
    'nobody leads',
    ({ leases }) => ({ leases: [lease('topolvm', { renewedMsAgo: 60_000 }), ...leases.slice(1)] }),
    /^controller: error: No replica of controller leads/,
  ],
  ['a sidecar has no lease', ({ leases }) => ({ leases: leases.slice(0, 2) }), /No replica of csi-resizer leads/],
  [
    'the webhook trusts no certificate',
    async () => ({ webhooks: [given.webhookConfiguration('')] }),
    /^webhook: error: The API server trusts no certificate/,
  ],
  [
    'the certificate has expired',
    async () => ({ webhooks: [given.webhookConfiguration(await bundle(['controller-1'], -0.5))] }),
    /^webhook: error: The API server trusts no certificate/,
  ],
  [
    'the certificate is not renewed',
    async () => ({ webhooks: [given.webhookConfiguration(await bundle(['controller-1'], 1.5))] }),
    /^webhook: warning: The certificate .* expires in 1 day,/,
  ],
  [
    'a controller is not trusted',
    async () => ({ webhooks: [given.webhookConfiguration(await bundle(['controller-0']))] }),
    /^webhook: error: The API server does not trust controller controller-1/,
  ],
  [
    'the webhook has no endpoint',
    () => ({ endpointSlices: [] }),
    /^webhook: error: The API server cannot call webhook/,
  ],
  [
    'a CRD is missing',
    ({ crds }) => ({ crds: crds.slice(1) }),
    /^CRDs: error: CRD logicalvolumes\.topolvm\.io is missing/,
  ],
  [
    'a CRD is older',
    ({ crds }) => ({
      crds: crds.map((each) => (each.metadata.name.startsWith('nodestorages') ? withoutSwap(each) : each)),
    }),
    /^CRDs: warning: CRD nodestorages\.moorage\.dev is older/,
  ],
  [
    'versions differ',
    ({ reports }) => ({
      reports: [report('a', { versions: { moorage: '1.2.2', e2fsprogs: '1' } }), ...reports.slice(1)],
    }),
    /^versions: warning: Agents have different versions/,
  ],
  ['the plugin is older', () => ({ version: '1.0.0' }), /^versions: warning: This plugin has another version/],
  [
    'a clock is behind',
    ({ nodeLeases }) => ({
      nodeLeases: [lease('a', { renewedMsAgo: 63_000, storedMsAgo: 3000 }), ...nodeLeases.slice(1)],
    }),
    /^clock: warning: The clock of node a is 60 s behind that of the API server/,
  ],
  [
    'a kubelet that is silent has no wrong clock',
    ({ nodeLeases }) => ({ nodeLeases: [lease('a', { renewedMsAgo: 600_000 }), ...nodeLeases.slice(1)] }),
  ],
  [
    'a thin pool is in danger',
    ({ reports }) => ({ reports: [report('a', { pools: [thin] }), ...reports.slice(1)] }),
    /^pools: error: Class ssd on node a: its thin pool is 90% full/,
    /^pools: error: Class ssd on node a: the metadata of its thin pool is 81% full/,
  ],
  [
    'LVM does not have thin pools',
    ({ reports }) => ({
      reports: [
        report('a', { pools: [{ ...ssd, type: 'thin' }], features: { segmentTypes: ['linear'] } }),
        ...reports.slice(1),
      ],
    }),
    /^LVM and kernel: error: LVM on node a does not support thin pools/,
  ],
  [
    'IO cannot be limited',
    ({ reports }) => ({
      reports: [report('a', { features: { ioLimits: false } }), ...reports.slice(1)],
      attributesClasses: [{ metadata: meta('slow'), driverName }],
    }),
    /^LVM and kernel: warning: Node a cannot limit IO/,
    /csi-provisioner does not act on/,
    /csi-resizer does not act on/,
  ],
  [
    'the scheduler has wrong numbers',
    ({ capacities }) => ({ capacities: capacities.map((each) => ({ ...each, capacity: '2Gi' })).slice(1) }),
    /^capacity: error: The scheduler has the wrong free space of node a/,
    /^capacity: error: The scheduler has the wrong free space of node b/,
  ],
  [
    'numbers that have just changed are on their way',
    ({ nodes, capacities }) => ({
      nodes: nodes.map(({ metadata }) => ({
        metadata: { ...metadata, managedFields: [{ time: at(2000), fieldsV1: annotated }] },
      })),
      capacities: capacities.map((each) => ({ ...each, capacity: '2Gi' })),
    }),
  ],
  [
    'the scheduler needs no numbers for a class that does not wait for it',
    ({ storageClasses }) => ({
      storageClasses: [...storageClasses, { metadata: meta('now'), provisioner: driverName }],
    }),
    /^StorageClasses: warning: StorageClass now places volumes before their pods/,
  ],
  [
    'no node serves a class',
    ({ storageClasses }) => ({
      storageClasses: [
        ...storageClasses,
        {
          metadata: meta('fast'),
          provisioner: driverName,
          volumeBindingMode: 'Immediate',
          parameters: { [parameters.deviceClass]: 'nvme' },
        },
      ],
    }),
    /^StorageClasses: error: No node serves StorageClass fast/,
    /^StorageClasses: warning: StorageClass fast places volumes before their pods/,
  ],
  [
    'swap is not encrypted',
    ({ facts, reports }) => ({
      facts: {
        ...facts,
        volumes: [volumeOfTest({ claim: 'db/data', isEncrypted: true })],
        persistentVolumes: bound,
      },
      reports: [
        report('a', {
          swap: [
            { device: '/dev/sda2', protection: 'Plain' },
            { device: '/swap', protection: 'Unknown' },
            { device: '/dev/dm-0', protection: 'Encrypted' },
          ],
        }),
        ...reports.slice(1),
      ],
    }),
    /^swap: warning: Node a has encrypted volumes, and swaps to \/dev\/sda2, which is not encrypted/,
    /^swap: warning: .* it is unknown whether its swap \/swap is encrypted/,
  ],
  [
    'swap does not matter without encrypted volumes',
    ({ reports }) => ({
      reports: [report('a', { swap: [{ device: '/dev/sda2', protection: 'Plain' }] }), ...reports.slice(1)],
    }),
  ],
  [
    'a volume is lost',
    ({ facts }) => ({
      facts: {
        ...facts,
        volumes: [volumeOfTest({ claim: 'db/data', isMissing: true })],
        persistentVolumes: bound,
      },
    }),
    /^orphans: error: 1 volume is Missing: /,
  ],
  [
    'a Node cannot be deleted',
    ({ nodes }) => ({
      nodes: nodes.map((each, i) =>
        i === 0 ? { ...each, metadata: { ...each.metadata, deletionTimestamp: at(3_600_000) } } : each,
      ),
    }),
    /^node removal: warning: Node a is being deleted for more than ten minutes/,
  ],
  [
    'a Node has no finalizer',
    ({ nodes }) => ({
      nodes: nodes.map((each, i) => (i === 0 ? { ...each, metadata: { ...each.metadata, finalizers: [] } } : each)),
    }),
    /^node removal: warning: Node a does not have the finalizer/,
  ],
  [
    'TopoLVM is left',
    ({ webhooks, csiDrivers }) => ({
      webhooks: [...webhooks, { ...given.webhookConfiguration(''), metadata: meta('topolvm-hook') }],
      csiDrivers: [...csiDrivers, { metadata: meta('topolvm.cybozu.com'), spec: {} }],
    }),
    /^TopoLVM: error: Webhooks of TopoLVM are left/,
    /^TopoLVM: warning: Objects of TopoLVM's old driver/,
  ],
  [
    'TopoLVM runs beside Moorage',
    () => ({ topolvmPods: [{ ...pod('topolvm-node', 'node') }] }),
    /^TopoLVM: error: TopoLVM runs beside Moorage/,
  ],
];

const bound = new Map([['id-pvc-1', persistentVolumeOfTest({ claim: 'db/data', isRetained: false })]]);

function withoutSwap(crd: Observed['crds'][number]): Observed['crds'][number] {
  const copy = structuredClone(crd);
  delete copy.spec.versions[0]?.schema?.openAPIV3Schema?.properties?.['status']?.properties?.['swap'];
  return copy;
}

for (const [about, change, ...expected] of rows) {
  test(`doctor: ${about}`, async () => {
    const findings = await found(await change(await healthy()));
    assert.equal(findings.length, expected.length, findings.join('\n'));
    for (const [i, pattern] of expected.entries()) assert.match(findings[i] ?? '', pattern);
  });
}

test('a CRD that is missing is found, although there are no reports without it', async () => {
  const observed = await healthy();
  const reports = { kind: 'unknown', reason: 'the cluster has no nodestorages' } as const;
  const crds = observed.crds.filter(({ metadata }) => metadata.name !== 'nodestorages.moorage.dev');
  const diagnosis = diagnosisOf({ ...readingsOf({ ...observed, crds }), reports }, { nowMs, version: '1.2.3' });
  const report = diagnosis.areas.find(({ area }) => area === 'CRDs');
  assert.match(report?.findings[0]?.what ?? '', /^CRD nodestorages\.moorage\.dev is missing/);
});

test('static volumes alone need neither CRDs nor a driver', async () => {
  const { pods } = await healthy();
  const agents = ['a', 'b'].map((name) => pod(`agent-on-${name}`, 'node', { args: ['--csi=false'] }));
  assert.deepEqual(await found({ pods: [...agents, ...pods.slice(2)], crds: [], csiNodes: [], csiDrivers: [] }), []);
});

test('with static volumes alone, areas of kinds that the cluster does not have do not apply', async () => {
  const observed = await healthy();
  const agents = ['a', 'b'].map((name) => pod(`agent-on-${name}`, 'node', { args: ['--csi=false'] }));
  const reports = { kind: 'absent', reason: 'the cluster has no nodestorages' } as const;
  const alone = { ...observed, pods: [...agents, ...observed.pods.slice(2)], crds: [], csiNodes: [], csiDrivers: [] };
  const diagnosis = diagnosisOf({ ...readingsOf(alone), reports }, { nowMs, version: '1.2.3' });
  assert.equal(diagnosis.healthy, true);
  const screen = doctorScreen(diagnosis, { columns: 100, colours: false });
  assert.match(screen, /^- pools +does not apply: the cluster has no nodestorages$/m);
  assert.match(screen, /^✔ orphans +none$/m);
  assert.match(screen, /^Nothing found\.$/m);
  const withCsi = diagnosisOf({ ...readingsOf(observed), reports }, { nowMs, version: '1.2.3' });
  assert.equal(withCsi.healthy, false, 'an installation that needs the kind lacks it');
});

test('what may not be read is said, and is not healthy', async () => {
  const observed = await healthy();
  const readings = {
    ...readingsOf(observed),
    crds: { kind: 'unknown', reason: 'you may not list customresourcedefinitions' },
  } as const;
  const diagnosis = diagnosisOf(readings, { nowMs, version: '1.2.3' });
  assert.equal(diagnosis.healthy, false);
  assert.deepEqual(
    diagnosis.areas.filter(({ result }) => result !== 'ok').map(({ area, result }) => [area, result]),
    [
      ['CRDs', 'unknown'],
      ['TopoLVM', 'unknown'],
    ],
  );
  const screen = doctorScreen(diagnosis, { columns: 100, colours: false });
  assert.match(screen, /^\? CRDs +not checked: you may not list customresourcedefinitions$/m);
  assert.match(screen, /2 areas not checked: ask for the rights that are missing\.$/);
});

test('a finding is shown with its evidence, and its command in one piece', async () => {
  const { diagnosis } = await diagnosisWith({ endpointSlices: [] });
  const screen = doctorScreen(diagnosis, { columns: 60, colours: false });
  assert.match(screen, /^✘ webhook +1 finding\n {4}✘ The API server cannot call/m);
  assert.match(screen, /^ {6}EndpointSlices of Service moorage-controller: none is\n {6}ready$/m);
  assert.match(screen, /^ {6}fix: kubectl get pods -A -l app\.kubernetes\.io\/component=controller$/m);
  assert.match(screen, /^1 finding\.$/m);
});

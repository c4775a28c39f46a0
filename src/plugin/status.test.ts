import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { NodeStorageStatus } from '../api/node-storage.ts';
import type { NodeFacts, NodeState } from './facts.ts';
import { nodeTable, poolRows } from './nodes.ts';
import { statusOf, statusScreen } from './status.ts';
import { noVolumes, volumeOfTest } from './testing/facts-of-test.ts';

const nowMs = Date.parse('2026-01-07T01:00:00Z');
const plain = { columns: 80, colours: false };

const ready = (...names: string[]): NodeState[] => names.map((name) => ({ name, unready: undefined }));

function node(name: string, pools: NodeStorageStatus['pools'], changes: Partial<NodeStorageStatus> = {}): NodeFacts {
  const nothing = { total: 0, volumes: [] };
  const status: NodeStorageStatus = {
    nodeUID: `uid-${name}`,
    updatedAt: '2026-01-07T00:00:00Z',
    pools,
    erasures: nothing,
    orphans: nothing,
    versions: {},
    features: {},
    ...changes,
  };
  return { name, status };
}

const ssd = {
  deviceClass: 'ssd',
  default: true,
  type: 'thick',
  volumeGroup: 'vg0',
  health: 'Healthy',
  size: '100Gi',
  used: '25Gi',
  free: '75Gi',
  volumes: 7,
} as const;
const fast = {
  deviceClass: 'fast',
  health: 'Unavailable',
  reason: 'volume group vg1 is missing; attach its disk',
} as const;
const thin = {
  deviceClass: 'thin',
  type: 'thin',
  volumeGroup: 'vg2',
  thinPool: 'pool0',
  health: 'Healthy',
  size: '10Gi',
  used: '9830Mi',
  free: '1Gi',
  thin: { dataPercent: 96, metadataPercent: 12 },
} as const;

test('pools are shown by node and class, as bars', () => {
  const rows = poolRows([node('b', [ssd]), node('a', [thin, fast])]);
  assert.equal(
    nodeTable(rows, 'table', nowMs, plain),
    [
      'NODE  CLASS  TYPE   USED           FREE    SIZE     VOLUMES  HEALTH',
      'a     fast          -              -       -        0        Unavailable',
      '      thin   thin   ███████░  95%  1 GiB   10 GiB   0        Healthy',
      'b     ssd *  thick  ██░░░░░░  25%  75 GiB  100 GiB  7        Healthy',
    ].join('\n'),
  );
  const wide = nodeTable(rows, 'wide', nowMs, { ...plain, columns: undefined });
  assert.match(
    wide,
    /METADATA +PLACE +UPDATED +REASON\n.*60m +volume group vg1 is missing; attach its disk\n.*12% +vg2\/pool0/,
  );
});

test('a cluster without problems is healthy', () => {
  const status = statusOf(noVolumes, [node('a', [ssd])], ready('a'), nowMs);
  assert.deepEqual([status.healthy, status.nodes, status.pools, status.problems], [true, 1, 1, []]);
  assert.match(statusScreen(status, plain), /^✔ No problems\.\n\nNodes {4}1, with 1 pool\nVolumes {2}0$/);
});

test('each problem is named with what to do', () => {
  const orphans = { total: 2, volumes: [] };
  const erasures = { total: 1, volumes: [] };
  const lost = volumeOfTest({ claim: 'db/data-0', isMissing: true });
  const reports = [node('a', [fast, thin], { orphans, erasures })];
  const status = statusOf({ ...noVolumes, volumes: [lost] }, reports, ready('a'), nowMs);
  assert.deepEqual(
    status.problems.map(({ severity, about }) => `${severity}: ${about}`),
    ['error: class fast on node a', 'error: class thin on node a', 'error: volume db/data-0', 'warning: node a'],
  );
  const screen = statusScreen(status, plain);
  assert.match(screen, /^✘ 4 problems\n/);
  assert.match(screen, /^Volumes {2}1: 1 Missing$/m);
  assert.match(screen, /^Erasing {2}1 removed volume$/m);
  assert.match(screen, /^✘ volume db\/data-0\n {4}not on the disks of node a: return the disks/m);
  assert.match(screen, /^✘ class fast on node a\n {4}volume group vg1 is missing; attach its disk$/m);
  assert.match(screen, /^✘ class thin on node a\n {4}its thin pool is 96% full, and writes fail/m);
  assert.match(
    screen,
    /^! node a\n {4}2 volumes on its disks without a LogicalVolume: see\s+kubectl moorage\s+orphans$/m,
  );
});

test('orphans are counted as the other command lists them; those without a device class are pointed out', () => {
  const common = { size: '1Gi', tags: ['moorage.dev/created'] };
  const orphans = {
    total: 3,
    volumes: [
      { ...common, name: 'x', deviceClass: 'ssd' },
      { ...common, name: 'y', volumeGroup: 'old' },
    ],
  };
  const unclaimed = volumeOfTest({ createdAt: '2026-01-01T00:00:00Z' });
  const status = statusOf({ ...noVolumes, volumes: [unclaimed] }, [node('a', [ssd], { orphans })], ready('a'), nowMs);
  assert.equal(status.orphans, 4);
  assert.deepEqual(
    status.problems.map(({ what }) => what),
    ['3 volumes on its disks without a LogicalVolume, 1 of them without a device class: see kubectl moorage orphans'],
  );
  assert.match(statusScreen(status, plain), /^Orphans {2}4: see kubectl moorage orphans$/m);
  const one = { total: 1, volumes: orphans.volumes.slice(1) };
  const [problem] = statusOf(noVolumes, [node('a', [ssd], { orphans: one })], ready('a'), nowMs).problems;
  assert.match(problem?.what ?? '', /^1 volume on its disks without a LogicalVolume or a device class: see/);
});

test('a node that is not ready is a problem, with what is on it', () => {
  const unready = 'its kubelet does not answer';
  const nodes = ['a', 'b', 'other'].map((name) => ({ name, unready }));
  const volumes = ['db/data-0', 'db/data-1', undefined].map((claim, i) => volumeOfTest({ name: `pvc-${i}`, claim }));
  const users = new Map([
    ['db/data-0', ['db-0']],
    ['db/data-1', ['db-0', 'backup']],
  ]);
  const status = statusOf({ ...noVolumes, volumes, users }, [node('b', [ssd])], [...nodes, ...ready('c')], nowMs);
  assert.deepEqual(status.problems, [
    {
      severity: 'error',
      about: 'node a',
      what: 'its kubelet does not answer; it has 3 volumes, used by 2 pods: see kubectl get node a',
    },
    {
      severity: 'warning',
      about: 'node b',
      what: 'its kubelet does not answer; it has no volumes: see kubectl get node b',
    },
  ]);
});

test('what a node reported before it was removed is no problem', () => {
  const orphans = { total: 2, volumes: [] };
  const reports = [node('a', [ssd]), node('gone', [fast], { orphans, erasures: orphans })];
  const { healthy, nodes, pools, orphans: counted, erasing } = statusOf(noVolumes, reports, ready('a'), nowMs);
  assert.deepEqual([healthy, nodes, pools, counted, erasing], [true, 1, 1, 0, 0]);
});

test('many volumes with the same trouble are one problem', () => {
  const lost = [...Array(5).keys()].map((i) =>
    volumeOfTest({ name: `pvc-${i}`, claim: `db/data-${i}`, isMissing: true }),
  );
  const { problems } = statusOf({ ...noVolumes, volumes: lost }, [], [], nowMs);
  assert.equal(problems.length, 1);
  assert.equal(problems[0]?.about, '5 volumes are Missing');
  assert.match(
    problems[0]?.what ?? '',
    /volumes -A --health Missing -o wide; the first is db\/data-0: not on the disks/,
  );
});

test('many problems do not fill more than a screen', () => {
  const reports = [...Array(50).keys()].map((i) => node(`n${i}`, [fast]));
  const status = statusOf(noVolumes, reports, ready(...reports.map(({ name }) => name)), nowMs);
  assert.equal(status.problems.length, 50);
  assert.ok(statusScreen(status, plain).split('\n').length < 50);
  assert.match(statusScreen(status, plain), /and 40 more problems; use -o json to see all$/);
});

test('a cluster without the kind NodeStorage says so', () => {
  const status = statusOf(noVolumes, undefined, ready('a'), nowMs);
  assert.match(status.problems[0]?.what ?? '', /no kind NodeStorage; upgrade Moorage/);
});

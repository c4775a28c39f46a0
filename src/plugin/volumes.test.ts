import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Facts, PersistentVolumeFacts, VolumeFacts } from './facts.ts';
import { noVolumes, persistentVolumeOfTest, volumeOfTest } from './testing/facts-of-test.ts';
import { type Health, healthOf, volumeRows, volumeTable } from './volumes.ts';

const gibibyte = 1024n ** 3n;
const nowMs = Date.parse('2026-01-10T00:00:00Z');

const volume = (name: string, changes: Partial<VolumeFacts> = {}) =>
  volumeOfTest({ name, node: 'node-a', sizeBytes: 10n * gibibyte, ...changes });
const pv = (name: string, claim: string, phase = 'Bound') => persistentVolumeOfTest({ name, claim, phase });

function facts(volumes: readonly VolumeFacts[], pvs: readonly PersistentVolumeFacts[] = [], more = {}): Facts {
  const persistentVolumes = new Map(pvs.map((each) => [each.handle, each]));
  return { ...noVolumes, volumes, persistentVolumes, ...more };
}

test('a row joins a LogicalVolume with its PersistentVolume, claim and pods', () => {
  const users = new Map([['db/data-0', ['postgres-0', 'backup']]]);
  const [row] = volumeRows(facts([volume('pvc-1')], [pv('pvc-1', 'db/data-0')], { users }));
  assert.deepEqual(row, {
    name: 'pvc-1',
    namespace: 'db',
    claim: 'data-0',
    pods: ['postgres-0', 'backup'],
    node: 'node-a',
    deviceClass: 'ssd',
    storageClass: 'fast',
    sizeBytes: 10n * gibibyte,
    health: 'Healthy',
    volumeId: 'id-pvc-1',
    createdAt: '2026-01-07T00:00:00Z',
  });
});

test('rows are in the order of their claims, without snapshots, and those without a claim are last', () => {
  const volumes = [volume('a'), volume('b'), volume('c'), volume('snap', { isSnapshot: true })];
  const rows = volumeRows(facts(volumes, [pv('a', 'z/1'), pv('c', 'b/2')]));
  assert.deepEqual(
    rows.map(({ name }) => name),
    ['c', 'a', 'b'],
  );
});

test('rows are selected by namespace, node, class and health', () => {
  const volumes = [volume('a'), volume('b', { node: 'node-b', deviceClass: 'hdd' }), volume('c', { isMissing: true })];
  const all = facts(volumes, [pv('a', 'one/x'), pv('b', 'two/y'), pv('c', 'two/z')]);
  const names = (filter: object) => volumeRows(all, filter).map(({ name }) => name);
  assert.deepEqual(names({ namespace: 'two' }), ['b', 'c']);
  assert.deepEqual(names({ node: 'node-b' }), ['b']);
  assert.deepEqual(names({ deviceClass: 'ssd' }), ['a', 'c']);
  assert.deepEqual(names({ health: 'Missing' }), ['c']);
  assert.deepEqual(names({ namespace: 'one', health: 'Missing' }), []);
});

test('health is what matters most, and says why', () => {
  const bound = pv('v', 'db/data');
  const claimIs = (phase: string, isGrowing = false) => ({ claims: new Map([['db/data', { phase, isGrowing }]]) });
  const growing = claimIs('Bound', true);
  const cases: [Partial<VolumeFacts>, readonly PersistentVolumeFacts[], object, Health, RegExp][] = [
    [{}, [bound], {}, 'Healthy', /^$/],
    [{ volumeId: undefined, claim: 'db/data' }, [], {}, 'Creating', /^$/],
    [{ volumeId: undefined, failure: 'no space' }, [], {}, 'Failed', /^cannot be created: no space$/],
    [{ growthFailure: 'no room' }, [bound], growing, 'Failed', /^cannot be grown: no room$/],
    [{}, [bound], growing, 'Growing', /^$/],
    [{ isDeleting: true }, [bound], {}, 'Deleting', /^$/],
    [
      { isDeleting: true, removalFailure: 'device is open' },
      [bound],
      {},
      'Failed',
      /^cannot be removed: device is open$/,
    ],
    [{}, [pv('v', 'db/data', 'Released')], {}, 'Released', /db\/data was deleted/],
    [{}, [], {}, 'Unclaimed', /no PersistentVolume/],
    [{ claim: 'db/data' }, [], {}, 'Unclaimed', /no PersistentVolume/],
    [{ claim: 'db/data' }, [], claimIs('Lost'), 'Unclaimed', /no PersistentVolume/],
    [{ claim: 'db/data' }, [], claimIs('Pending'), 'Creating', /^$/],
    [{ isNodeGone: true, isDeleting: true }, [bound], {}, 'NodeGone', /node node-a was removed/],
    [{ isReceiving: true }, [], {}, 'Receiving', /moves to this node/],
    [{ isMissing: true, isNodeGone: true }, [bound], {}, 'Missing', /not on the disks of node node-a/],
  ];
  for (const [changes, pvs, more, health, reason] of cases) {
    const found = healthOf(volume('v', changes), facts([], pvs, more));
    assert.equal(found.health, health, JSON.stringify(changes));
    assert.match(found.reason ?? '', reason);
  }
});

test('the table fits the terminal, and -o wide shows more', () => {
  const long = 'data-a-very-long-name-of-a-stateful-set-';
  const volumes = [
    volume('pvc-1'),
    volume('pvc-2', { failure: 'no space', volumeId: undefined, claim: `db/${long}1` }),
  ];
  const users = new Map([[`db/${long}0`, ['a-very-long-name-of-a-stateful-set-0', 'b']]]);
  const rows = volumeRows(facts(volumes, [pv('pvc-1', `db/${long}0`)], { users }));
  const style = { format: 'table', allNamespaces: true, nowMs } as const;
  const lines = volumeTable(rows, style, { columns: 80, colours: false }).split('\n');
  assert.ok(lines.every((line) => line.length <= 80));
  assert.match(lines[0] ?? '', /^NAMESPACE +CLAIM +POD +NODE +CLASS +SIZE +HEALTH +AGE$/);
  assert.match(lines[1] ?? '', /^db +data-a-\S*…\S*-0 +a-very\S*…\S* \+1 +node-a +ssd +10 GiB +Healthy +3d$/);
  assert.match(lines[2] ?? '', / - .*Failed +3d$/);
  const wide = volumeTable(rows, { ...style, format: 'wide' }, { columns: undefined, colours: false });
  assert.match(wide, /STORAGECLASS +VOLUME +REASON\n.*fast +pvc-1\n.*pvc-2 +cannot be created: no space$/);
});

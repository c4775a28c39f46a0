import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { parseAllVolumes, parseRedundancy, parseReport, parseThinUsage, UnreadableReport } from './report.ts';

const extent = 4194304n;

function report(volumes: readonly Record<string, string>[], group: Record<string, string> = {}): string {
  const vg = {
    vg_uuid: 'EKLdvx-9jKc',
    vg_seqno: '7',
    vg_extent_size: String(extent),
    vg_extent_count: '1023',
    vg_free_count: '1000',
    ...group,
  };
  const pv = [
    { pv_name: '/dev/sdb', pv_uuid: 'Wydr-bH', pv_mda_size: '1044480' },
    { pv_name: '[unknown]', pv_uuid: 'xxxx-xx', pv_mda_size: '0' },
  ];
  return JSON.stringify({ report: [{ vg: [vg], pv, lv: volumes, pvseg: [], seg: [] }] });
}

const row = {
  lv_name: 'data',
  lv_uuid: 'LkZ2-a',
  lv_path: '/dev/vg1/data',
  lv_size: '8388608',
  lv_attr: '-wi-a-----',
  lv_active: 'active',
  lv_tags: 'a,moorage.dev/filesystem=ext4',
  origin: '',
  origin_size: '',
  pool_lv: '',
  data_percent: '',
  metadata_percent: '',
};

const data = {
  name: 'data',
  uuid: 'LkZ2-a',
  path: '/dev/vg1/data',
  sizeBytes: 8388608n,
  attr: '-wi-a-----',
  active: true,
  tags: ['a', 'moorage.dev/filesystem=ext4'],
  origin: undefined,
  pool: undefined,
  dataPercent: undefined,
  metadataPercent: undefined,
};

test('stripes are known if they are the same in all segments of a volume', () => {
  const stripesIn = (...counts: string[]) => {
    const { report: [only] = [] } = JSON.parse(report([row]));
    const seg = counts.map((stripes) => ({ lv_name: 'data', stripes }));
    const other = { lv_name: '[hidden]', stripes: '3' };
    return parseReport(JSON.stringify({ report: [{ ...only, seg: [other, ...seg] }] })).volumes[0]?.stripes;
  };
  assert.equal(stripesIn('1'), 1);
  assert.equal(stripesIn('2', '2'), 2);
  assert.equal(stripesIn('1', '2'), undefined);
  assert.equal(stripesIn(), undefined);
});

test('sizes, tags and disks are read; a missing disk has no path', () => {
  const idle = { ...row, lv_name: 'idle', lv_active: '', lv_tags: '' };
  assert.deepEqual(parseReport(report([row, idle])), {
    uuid: 'EKLdvx-9jKc',
    sequenceNumber: 7,
    extentBytes: extent,
    extents: 1023n,
    freeExtents: 1000n,
    disks: [{ path: '/dev/sdb', uuid: 'WydrbH' }],
    isPartial: true,
    metadataAreaBytes: 1044480n,
    volumes: [data, { ...data, name: 'idle', active: false, tags: [] }],
  });
});

test('thin pools have their usage, thin volumes their pool; hidden volumes are left out', () => {
  const { volumes } = parseReport(
    report([
      {
        ...row,
        lv_name: 'pool',
        lv_path: '',
        lv_attr: 'twi-aotz--',
        data_percent: '50.12',
        metadata_percent: '100.00',
      },
      { ...row, lv_name: 'snap', lv_attr: 'Vri-a-tz--', pool_lv: 'pool', origin: 'thin', data_percent: '0.00' },
      { ...row, lv_name: '[lvol0_pmspare]', lv_path: '', lv_attr: 'ewi-------' },
    ]),
  );
  const pool = { ...data, name: 'pool', path: '', attr: 'twi-aotz--', dataPercent: 50.12, metadataPercent: 100 };
  const snap = { ...data, name: 'snap', attr: 'Vri-a-tz--', pool: 'pool', origin: 'thin', dataPercent: 0 };
  assert.deepEqual(volumes, [pool, snap]);
});

test('a copy-on-write snapshot has the size of its origin, not of its store', () => {
  const snapshot = { ...row, lv_attr: 'swi-a-s---', origin: 'o', lv_size: '4194304', origin_size: '16777216' };
  assert.equal(parseReport(report([snapshot])).volumes[0]?.sizeBytes, 16777216n);
});

test('the usage of a thin pool is read', () => {
  const answer = (row: object) => JSON.stringify({ report: [{ lv: [row] }] });
  assert.deepEqual(parseThinUsage(answer({ data_percent: '1.50', metadata_percent: '' })), {
    dataPercent: 1.5,
    metadataPercent: undefined,
  });
  assert.throws(() => parseThinUsage(answer({ data_percent: 'x', metadata_percent: '' })), UnreadableReport);
  assert.throws(() => parseThinUsage('{"report":[{"lv":[]}]}'), UnreadableReport);
});

test('the volumes of all groups are reported with the place of each', () => {
  const answer = (...lv: object[]) => JSON.stringify({ report: [{ lv }] });
  const plain = { vg_name: 'vg', lv_name: 'data', lv_size: '8', lv_attr: '-wi-a-----', lv_tags: '', pool_lv: '' };
  const row = { ...plain, origin: '', origin_size: '' };
  const rows = [
    { ...row, lv_tags: 'a,b', pool_lv: 'pool', lv_attr: 'Vri---tz-k' },
    { ...row, origin: 'data', origin_size: '100' },
    row,
  ];
  const common = { id: 'data', sizeBytes: 8n, tags: [], readOnly: false, volumeGroup: 'vg' };
  assert.deepEqual(parseAllVolumes(answer(...rows)), [
    { ...common, tags: ['a', 'b'], readOnly: true, thinPool: 'pool' },
    { ...common, sizeBytes: 100n },
    common,
  ]);
  assert.deepEqual(parseAllVolumes(answer()), []);
  assert.throws(() => parseAllVolumes(answer({ vg_name: 'vg' })), UnreadableReport);
});

test('the extents that a growth takes follow from the reported mirrors and parity', () => {
  const taken = (segtype: string, stripes: string, data_stripes: string) =>
    parseRedundancy(JSON.stringify({ report: [{ lv: [{ segtype, stripes, data_stripes }] }] }))(5n);
  assert.equal(taken('linear', '1', '1'), 5n);
  assert.equal(taken('striped', '2', '2'), 5n);
  assert.equal(taken('mirror', '2', '2'), 10n);
  assert.equal(taken('raid1', '3', '3'), 15n);
  assert.equal(taken('raid10', '4', '2'), 10n);
  assert.equal(taken('raid5', '3', '2'), 8n);
  assert.equal(taken('thin', '0', '0'), 5n);
  assert.throws(() => parseRedundancy('{"report":[{"lv":[{}]}]}'), UnreadableReport);
});

test('any volumes are parsed as they were reported', () => {
  const name = fc.string({ unit: fc.constantFrom('a', 'Z', '0', '_', '+', '.', '-'), minLength: 1, maxLength: 20 });
  const tag = fc.string({ unit: fc.constantFrom('a', '/', '=', ':', '#', '&', '!'), minLength: 1, maxLength: 20 });
  const volume = fc.record({
    name,
    extents: fc.bigInt({ min: 1n, max: 2n ** 40n }),
    tags: fc.array(tag, { maxLength: 4 }),
  });
  fc.assert(
    fc.property(fc.array(volume), (volumes) => {
      const rows = volumes.map(({ name, extents, tags }) => ({
        ...row,
        lv_name: name,
        lv_size: String(extents * extent),
        lv_tags: tags.join(','),
      }));
      assert.deepEqual(
        parseReport(report(rows)).volumes,
        volumes.map(({ name, extents, tags }) => ({ ...data, name, sizeBytes: extents * extent, tags })),
      );
    }),
  );
});

test('an invalid report is rejected as a whole', () => {
  for (const text of [
    '',
    'WARNING: x',
    '{}',
    '{"report":[]}',
    report([{ ...row, lv_size: '8.00m' }]),
    report([{ ...row, data_percent: '1e3' }]),
    report([], { vg_free_count: '' }),
    report([], { vg_seqno: '-1' }),
  ]) {
    assert.throws(() => parseReport(text), UnreadableReport, text);
  }
  const whole = report([row]);
  fc.assert(
    fc.property(fc.nat(whole.length - 1), (length) =>
      assert.throws(() => parseReport(whole.slice(0, length)), UnreadableReport),
    ),
  );
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      assert.throws(() => parseReport(JSON.stringify(value)), UnreadableReport);
    }),
  );
});

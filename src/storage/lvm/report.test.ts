import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { parseReport, UnreadableReport } from './report.ts';

const extent = 4194304n;

function report(volumes: readonly Record<string, string>[], group: Record<string, string> = {}): string {
  const vg = { vg_extent_size: String(extent), vg_extent_count: '1023', vg_free_count: '1000', ...group };
  return JSON.stringify({ report: [{ vg: [vg], pv: [{ pv_uuid: 'x' }], lv: volumes, pvseg: [], seg: [] }] });
}

const row = {
  lv_name: 'data',
  lv_path: '/dev/vg1/data',
  lv_size: '8388608',
  lv_attr: '-wi-a-----',
  lv_active: 'active',
  lv_tags: 'a,moorage.dev/filesystem=ext4',
};

const data = {
  id: 'data',
  sizeBytes: 8388608n,
  devicePath: '/dev/vg1/data',
  readOnly: false,
  attr: '-wi-a-----',
};

test('sizes, tags and devices are read', () => {
  assert.deepEqual(parseReport(report([row, { ...row, lv_name: 'idle', lv_active: '', lv_tags: '' }])), {
    extentBytes: extent,
    extents: 1023n,
    freeExtents: 1000n,
    volumes: [
      { ...data, tags: ['a', 'moorage.dev/filesystem=ext4'] },
      { ...data, id: 'idle', tags: [] },
    ],
    inactive: ['idle'],
  });
});

test('thin volumes, their pool and parts without a device are left out', () => {
  const others = [
    { ...row, lv_name: 'pool', lv_path: '', lv_attr: 'twi-aotz--' },
    { ...row, lv_name: 'thin', lv_attr: 'Vwi-a-tz--' },
    { ...row, lv_name: '[lvol0_pmspare]', lv_path: '', lv_attr: 'ewi-------' },
  ];
  assert.deepEqual(parseReport(report(others)).volumes, []);
});

test('any volumes come back as they were reported', () => {
  const name = fc.string({ unit: fc.constantFrom('a', 'Z', '0', '_', '+', '.', '-'), minLength: 1, maxLength: 20 });
  const tag = fc.string({ unit: fc.constantFrom('a', '/', '=', ':', '#', '&', '!'), minLength: 1, maxLength: 20 });
  const volume = fc.record({
    id: name,
    extents: fc.bigInt({ min: 1n, max: 2n ** 40n }),
    tags: fc.array(tag, { maxLength: 4 }),
  });
  fc.assert(
    fc.property(fc.array(volume), (volumes) => {
      const rows = volumes.map(({ id, extents, tags }) => ({
        ...row,
        lv_name: id,
        lv_path: `/dev/vg1/${id}`,
        lv_size: String(extents * extent),
        lv_tags: tags.join(','),
      }));
      assert.deepEqual(
        parseReport(report(rows)).volumes,
        volumes.map(({ id, extents, tags }) => ({
          ...data,
          id,
          sizeBytes: extents * extent,
          devicePath: `/dev/vg1/${id}`,
          tags,
        })),
      );
    }),
  );
});

test('what is no report is refused, never half understood', () => {
  for (const text of [
    '',
    'WARNING: x',
    '{}',
    '{"report":[]}',
    report([{ ...row, lv_size: '8.00m' }]),
    report([], { vg_free_count: '' }),
  ]) {
    assert.throws(() => parseReport(text), UnreadableReport, text);
  }
  const whole = report([row]);
  fc.assert(
    fc.property(fc.nat(whole.length - 1), (length) =>
      assert.throws(() => parseReport(whole.slice(0, length)), UnreadableReport),
    ),
  );
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { healthOf, healthy } from './volume-health.ts';

test('a volume that is active, idle, open, a snapshot or mirrored is healthy', () => {
  for (const attr of [
    '-wi-a-----',
    '-wi-ao----',
    '-wi-------',
    'Vwi-aotz--',
    'rwi-aor---',
    'swi-a-s---',
    'Vri-a-tz-k',
  ]) {
    assert.equal(healthOf(attr), healthy, attr);
  }
});

const cases: readonly (readonly [string, boolean, RegExp])[] = [
  ['rwi-a-r-p-', true, /one of its disks is missing/],
  ['-wi-a---X-', true, /health of the volume is unknown/],
  ['Cwi-a-C-E-', true, /write cache reports an error/],
  ['Vwi-aotzF-', true, /thin pool has failed/],
  ['twi-aotzD-', true, /no space left for data/],
  ['twi-aotzM-', true, /metadata of the thin pool is read-only/],
  ['rwi-a-r-r-', true, /had write errors/],
  ['rwi-a-r-m-', true, /legs of its RAID differ/],
  ['rwi-a-r-s-', false, /being reshaped/],
  ['rwi-a-r-R-', false, /was reshaped/],
  ['rwi-a-r-w-', false, /read only if necessary/],
  ['-wi-s-----', true, /is suspended/],
  ['swi-I-s---', true, /has overflowed/],
  ['swi-S-s---', true, /overflowed and is suspended/],
  ['swi-m-s---', true, /merging the snapshot failed/],
  ['swi-M-s---', true, /merging the snapshot failed and it is suspended/],
  ['-wi-d-----', true, /without a table/],
  ['-wi-i-----', true, /inactive table/],
  ['twi-cotz--', true, /needs to be checked/],
  ['twi-Cotz--', true, /needs to be checked and is suspended/],
  ['-wi-h-----', true, /was removed/],
  ['-wi-XX----', true, /state of the volume is unknown/],
  ['-wi-aX----', true, /cannot determine whether the volume is in use/],
  ['rwi-s-r-p-', true, /one of its disks is missing/],
];

for (const [attr, isAbnormal, message] of cases) {
  test(`${attr} is reported as it is`, () => {
    const health = healthOf(attr);
    assert.equal(health.isAbnormal, isAbnormal);
    assert.match(health.message, message);
  });
}

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noRedundancy, redundancyOf, usableExtents } from './extents.ts';

const redundancy = (images: bigint, dataImages: bigint) => ({ images, dataImages });

test('the redundancy is known for options that are written in full', () => {
  for (const [words, expected] of [
    ['', noRedundancy],
    ['--nosync --addtag raid1 --zero=y -Wy -I 64', noRedundancy],
    ['--type striped --stripes 3', noRedundancy],
    ['-i2 -I64k', noRedundancy],
    ['--type=raid0 -i 2', noRedundancy],
    ['-m 0', noRedundancy],
    ['-m1', redundancy(2n, 1n)],
    ['--mirrors=2', redundancy(3n, 1n)],
    ['--type raid1', redundancy(2n, 1n)],
    ['--type raid1 --mirrors 2 --nosync', redundancy(3n, 1n)],
    ['--type mirror -m 1', redundancy(2n, 1n)],
    ['--stripes 2 -m 1', redundancy(4n, 2n)],
    ['--type raid10', redundancy(4n, 2n)],
    ['--type raid10_near -i3 -m1', redundancy(6n, 3n)],
    ['--type raid5', redundancy(3n, 2n)],
    ['--type raid5_ls --stripes=4', redundancy(5n, 4n)],
    ['--type=raid6 -i 3', redundancy(5n, 3n)],
    ['--type raid4 -i 3 /dev/sda /dev/sdb', redundancy(4n, 3n)],
  ] as const) {
    assert.deepEqual(redundancyOf(words.split(' ').filter(Boolean)), expected, words);
  }
});

test('the redundancy of unknown options is not guessed', () => {
  for (const words of [
    ...[
      '--type vdo',
      '--type cache',
      '--typ raid1',
      '--mirr 1',
      '--m 1',
      '--mirrors many',
      '-m',
      '-ym1',
      '-T',
      '--vdo',
    ],
    ...['--type raid1 --raidintegrity y', '--type raid5 -i 0', '-y --cachepool fast'],
  ]) {
    assert.equal(redundancyOf(words.split(' ')), undefined, words);
  }
});

test('the largest volume leaves room for mirrors, parity and their metadata', () => {
  assert.equal(usableExtents(noRedundancy, 101n), 101n);
  assert.equal(usableExtents(redundancy(2n, 1n), 101n), 49n);
  assert.equal(usableExtents(redundancy(3n, 2n), 100n), 64n);
  assert.equal(usableExtents(redundancy(2n, 1n), 1n), 0n);
});

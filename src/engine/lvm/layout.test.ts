import assert from 'node:assert/strict';
import { test } from 'node:test';
import { layoutOf, plainLayout, usableExtents } from './layout.ts';

const layout = (images: bigint, dataImages: bigint) => ({ images, dataImages });

test('the layout is known for options that are written in full', () => {
  for (const [words, expected] of [
    ['', plainLayout],
    ['--nosync --addtag raid1 --zero=y -Wy -I 64', plainLayout],
    ['--type striped --stripes 3', plainLayout],
    ['-i2 -I64k', plainLayout],
    ['--type=raid0 -i 2', plainLayout],
    ['-m 0', plainLayout],
    ['-m1', layout(2n, 1n)],
    ['--mirrors=2', layout(3n, 1n)],
    ['--type raid1', layout(2n, 1n)],
    ['--type raid1 --mirrors 2 --nosync', layout(3n, 1n)],
    ['--type mirror -m 1', layout(2n, 1n)],
    ['--stripes 2 -m 1', layout(4n, 2n)],
    ['--type raid10', layout(4n, 2n)],
    ['--type raid10_near -i3 -m1', layout(6n, 3n)],
    ['--type raid5', layout(3n, 2n)],
    ['--type raid5_ls --stripes=4', layout(5n, 4n)],
    ['--type=raid6 -i 3', layout(5n, 3n)],
    ['--type raid4 -i 3 /dev/sda /dev/sdb', layout(4n, 3n)],
  ] as const) {
    assert.deepEqual(layoutOf(words.split(' ').filter(Boolean)), expected, words);
  }
});

test('the layout of unknown options is not guessed', () => {
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
    assert.equal(layoutOf(words.split(' ')), undefined, words);
  }
});

test('the largest volume leaves room for mirrors, parity and their metadata', () => {
  assert.equal(usableExtents(plainLayout, 101n), 101n);
  assert.equal(usableExtents(layout(2n, 1n), 101n), 49n);
  assert.equal(usableExtents(layout(3n, 2n), 100n), 64n);
  assert.equal(usableExtents(layout(2n, 1n), 1n), 0n);
});

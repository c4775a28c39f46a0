import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { BlockMap } from '../changes/block-map.ts';
import { ThinDeviceUnexpected } from './thin-device.ts';
import { DifferenceParser, isReservedIn, MappingParser, showsAllDifferences } from './thin-metadata.ts';

const block = 65_536;
const head = '<superblock uuid="" time="2" transaction="3" data_block_size="128" nr_data_blocks="0">\n';

function inPieces(parser: DifferenceParser | MappingParser, output: string, pieceBytes: number): void {
  for (let at = 0; at < output.length; at += pieceBytes) {
    parser.push(Buffer.from(output.slice(at, at + pieceBytes)));
  }
  parser.mustBeComplete('thin_delta');
}

const runsOf = (map: BlockMap) =>
  [...map.runs()].map(({ kind, offset, length }) => [kind, offset / block, length / block]);

test('differences are data, and what is no longer mapped is zero, however the output arrives', () => {
  const output = `${head}  <diff left="2" right="3">
    <same begin="0" length="2"/>
    <different begin="2" length="1"/>
    <same begin="3" length="13"/>
    <left_only begin="16" length="2"/>
    <same begin="18" length="30"/>
    <right_only begin="700" length="5"/>
  </diff>
</superblock>
`;
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 400 }), (pieceBytes) => {
      const map = new BlockMap(1000 * block);
      inPieces(new DifferenceParser(map), output, pieceBytes);
      assert.deepEqual(runsOf(map), [
        ['data', 2, 1],
        ['zero', 16, 2],
        ['data', 700, 5],
      ]);
    }),
  );
});

test('differences beyond the end of the volume are left out', () => {
  const map = new BlockMap(3 * block);
  const output = `${head}<diff left="1" right="2">\n<right_only begin="2" length="9"/>\n</diff>\n</superblock>\n`;
  inPieces(new DifferenceParser(map), output, 1000);
  assert.deepEqual(runsOf(map), [['data', 2, 1]]);
});

test('an output that is cut off, or has an unknown element, is refused', () => {
  const element = '<different begin="2" length="1"/>\n';
  const outputs = [
    '',
    head,
    `${head}<diff left="1" right="2">\n${element}</diff>\n`,
    `${head}<diff left="1" right="2">\n<changed begin="2" length="1"/>\n</diff>\n</superblock>\n`,
    `<diff left="1" right="2">\n${element}</diff>\n</superblock>\n`,
  ];
  for (const output of outputs) {
    const parse = () => inPieces(new DifferenceParser(new BlockMap(block)), output, 50);
    assert.throws(parse, { name: 'NoCheckpoints' }, output);
  }
});

test('what is mapped is data, and all of it must be there', () => {
  const mapped = (count: number) => `${head}  <device dev_id="2" mapped_blocks="${count}" transaction="1">
    <range_mapping origin_begin="0" data_begin="7" length="48" time="0"/>
    <single_mapping origin_block="500" data_block="48" time="0"/>
  </device>
</superblock>
`;
  const map = BlockMap.all(1000 * block, 'zero');
  inPieces(new MappingParser(map), mapped(49), 30);
  assert.deepEqual(runsOf(map), [
    ['data', 0, 48],
    ['zero', 48, 452],
    ['data', 500, 1],
    ['zero', 501, 499],
  ]);
  assert.throws(() => inPieces(new MappingParser(map), mapped(50), 30), { name: 'NoCheckpoints' });
});

test('versions of thin_delta that miss changes are not used', () => {
  for (const version of ['0.9.0', '0.8.5\n', '1.0.6', 'thin_delta 1.0.12', '1.1.0', '2.0.0']) {
    assert.ok(showsAllDifferences(version), version);
  }
  for (const version of ['1.0.0', '1.0.5', 'thin_delta 1.0.4', '', 'unknown']) {
    assert.ok(!showsAllDifferences(version), version);
  }
});

test('a reserved metadata snapshot is seen in the status of the pool', () => {
  const status = (root: string) =>
    `0 524288 thin-pool 3 114/1024 51/4096 ${root} rw no_discard_passdown queue_if_no_space - 256 \n`;
  assert.ok(isReservedIn(status('58')));
  assert.ok(!isReservedIn(status('-')));
  for (const odd of ['', '0 524288 thin-pool Fail', '0 8 linear '])
    assert.throws(() => isReservedIn(odd), ThinDeviceUnexpected);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { InvalidInput } from './errors.ts';
import { formatBytes, parseMilliQuantity, parseQuantity, toQuantity } from './quantity.ts';

const gibi = 1024n ** 3n;

test('every unit of Kubernetes is parsed', () => {
  const examples: Record<string, bigint> = {
    '0': 0n,
    '1': 1n,
    '+5': 5n,
    '-5': -5n,
    '1Ki': 1024n,
    '1Mi': 1024n ** 2n,
    '1Gi': gibi,
    '1Ti': 1024n ** 4n,
    '1Pi': 1024n ** 5n,
    '1Ei': 1024n ** 6n,
    '1k': 1000n,
    '1M': 10n ** 6n,
    '1G': 10n ** 9n,
    '1T': 10n ** 12n,
    '1P': 10n ** 15n,
    '1E': 10n ** 18n,
    '1e3': 1000n,
    '1E3': 1000n,
    '1E+3': 1000n,
    '5000e-3': 5n,
    '1.5Gi': gibi + gibi / 2n,
    '.5Ki': 512n,
    '2.': 2n,
    '0.1Gi': 107374183n, // 107374182.4 rounded up
    '2000m': 2n,
    '1500m': 2n,
    '-1500m': -2n,
    '1n': 1n,
    '1000000u': 1n,
    '0e999999999': 0n,
    '1e-999999999': 1n,
    '9223372036854775807': 2n ** 63n - 1n,
  };
  for (const [text, bytes] of Object.entries(examples)) assert.equal(parseQuantity(text), bytes, text);
});

test('an invalid quantity is refused, with its text', () => {
  const nonsense = [
    '',
    ' ',
    '.',
    '-',
    '+-1',
    '1 Gi',
    ' 1',
    '1\n',
    '1K',
    '1ki',
    '1g',
    '1GB',
    '1GiB',
    '1e',
    '1e+',
    '1e1.5',
    'e3',
  ];
  for (const text of [
    ...nonsense,
    '0x10',
    '1,5Gi',
    '1.2.3',
    'Gi',
    '１Gi',
    'NaN',
    'Infinity',
    '1mi',
    '1ui',
    '--1',
    '1e3Ki',
  ]) {
    assert.throws(
      () => parseQuantity(text),
      (error: Error) => error instanceof InvalidInput && error.message.startsWith(JSON.stringify(text)),
      text,
    );
  }
});

test('a quantity beyond 64 bits is refused quickly, in any notation', () => {
  for (const text of ['9223372036854775808', '8Ei', '10E', '1e19', '1e999999999', '-8Ei', '9'.repeat(60)]) {
    assert.throws(
      () => parseQuantity(text),
      { name: 'InvalidInput', message: /more than 9223372036854775807 bytes/ },
      text,
    );
  }
  assert.throws(() => parseQuantity('9'.repeat(1_000_000)), InvalidInput);
});

const bytes = fc.bigInt({ min: -(2n ** 63n) + 1n, max: 2n ** 63n - 1n });

test('a size formatted as a quantity is parsed back exactly', () => {
  fc.assert(fc.property(bytes, (size) => parseQuantity(toQuantity(size)) === size));
  fc.assert(fc.property(fc.bigInt({ min: 0n, max: 8191n }), (n) => parseQuantity(toQuantity(n * gibi)) === n * gibi));
});

test('the canonical quantity uses the largest unit that fits exactly', () => {
  assert.deepEqual([0n, 1n, 1024n, 1025n, (gibi * 3n) / 2n, gibi, -gibi].map(toQuantity), [
    '0',
    '1',
    '1Ki',
    '1025',
    '1536Mi',
    '1Gi',
    '-1Gi',
  ]);
});

test('fractions are exact and round away from zero', () => {
  const units: [string, bigint][] = [
    ['', 1n],
    ['k', 1000n],
    ['Ki', 1024n],
    ['M', 10n ** 6n],
    ['Gi', gibi],
    ['T', 10n ** 12n],
  ];
  fc.assert(
    fc.property(
      fc.nat(1_000_000),
      fc.nat(999_999),
      fc.constantFrom(...units),
      fc.boolean(),
      (whole, millionths, [unit, factor], negative) => {
        const exactMillionths = (BigInt(whole) * 1_000_000n + BigInt(millionths)) * factor;
        const up = exactMillionths / 1_000_000n + (exactMillionths % 1_000_000n > 0n ? 1n : 0n);
        const text = `${negative ? '-' : ''}${whole}.${String(millionths).padStart(6, '0')}${unit}`;
        assert.equal(parseQuantity(text), negative ? -up : up);
      },
    ),
  );
});

test('any text is either a quantity or refused with InvalidInput', () => {
  const text = fc.string({ unit: fc.constantFrom(...'0123456789.+-eEKMGTPinumk '.split('')), maxLength: 12 });
  fc.assert(
    fc.property(text, (candidate) => {
      try {
        const size = parseQuantity(candidate);
        assert.ok(size <= 2n ** 63n - 1n);
      } catch (error) {
        assert.ok(error instanceof InvalidInput);
      }
    }),
    { numRuns: 2000 },
  );
});

test('sizes for people use the largest unit', () => {
  assert.deepEqual([0n, 1023n, 1024n, 1536n, (gibi * 3n) / 2n, gibi - 1n, -gibi, 2n ** 63n].map(formatBytes), [
    '0 B',
    '1023 B',
    '1 KiB',
    '1.5 KiB',
    '1.5 GiB',
    '1023.99 MiB',
    '-1 GiB',
    '8 EiB',
  ]);
});

test('CPUs are counted in thousandths', () => {
  const examples: Record<string, bigint> = {
    '1': 1000n,
    '500m': 500n,
    '0.5': 500n,
    '1.5': 1500n,
    '100u': 1n,
    '2k': 2_000_000n,
  };
  for (const [text, milli] of Object.entries(examples)) assert.equal(parseMilliQuantity(text), milli, text);
});

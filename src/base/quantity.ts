import { InvalidInput } from './errors.ts';

const kibi = 1024n;
const binaryUnits = ['Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'] as const;
const decimalExponents: Readonly<Record<string, number>> = {
  n: -9,
  u: -6,
  m: -3,
  '': 0,
  k: 3,
  M: 6,
  G: 9,
  T: 12,
  P: 15,
  E: 18,
};

/** The API server's limit: a signed 64-bit number of bytes. */
const maxBytes = 2n ** 63n - 1n;

// An `E` with digits after it is an exponent, and alone it means exa: the order of the alternatives matters.
const grammar =
  /^(?<sign>[+-]?)(?<whole>\d*)(?:\.(?<fraction>\d*))?(?:[eE](?<exponent>[+-]?\d+)|(?<suffix>[KMGTPE]i|[numkMGTPE]|))$/;

/**
 * A Kubernetes quantity in bytes, exactly: `1Gi`, `1.5Gi`, `1e9`, `100M`, `500m`. A fraction of a byte is rounded away
 * from zero, as the API server does.
 */
export function parseQuantity(text: string): bigint {
  return parsed(text, 0);
}

/** A Kubernetes quantity in thousandths, as CPUs are counted: 500 for `500m` or `0.5`. */
export function parseMilliQuantity(text: string): bigint {
  return parsed(text, 3);
}

function parsed(text: string, unitPower: number): bigint {
  const groups = text.length <= 64 ? grammar.exec(text)?.groups : undefined;
  const { sign, whole = '', fraction = '', exponent, suffix = '' } = groups ?? {};
  if (!groups || whole + fraction === '') {
    throw new InvalidInput(
      `${JSON.stringify(text.slice(0, 64))} is not a quantity; write a number with a unit, such as 10Gi or 500M`,
    );
  }

  const digits = BigInt(whole + fraction);
  const binaryPower = binaryUnits.indexOf(suffix as (typeof binaryUnits)[number]) + 1;
  const decimalPower = exponent === undefined ? (decimalExponents[suffix] ?? 0) : Number(exponent);
  // Beyond these powers the result is clear; computing it would only take memory.
  if (digits !== 0n && decimalPower > 64) throw tooLarge(text);
  const scale = Math.max(decimalPower, -128) - fraction.length + unitPower;
  const numerator = digits * kibi ** BigInt(binaryPower) * 10n ** BigInt(Math.max(0, digits === 0n ? 0 : scale));
  const denominator = 10n ** BigInt(Math.max(0, -scale));

  const bytes = (numerator + denominator - 1n) / denominator;
  if (bytes > maxBytes) throw tooLarge(text);
  return sign === '-' ? -bytes : bytes;
}

function tooLarge(text: string): InvalidInput {
  return new InvalidInput(`quantity ${text} is more than ${maxBytes} bytes; use a smaller one`);
}

/** The shortest exact quantity, as Kubernetes writes it: `1536Mi` for one and a half GiB. */
export function toQuantity(bytes: bigint): string {
  let count = bytes;
  let unit = '';
  for (const larger of binaryUnits) {
    if (count === 0n || count % kibi !== 0n) break;
    count /= kibi;
    unit = larger;
  }
  return `${count}${unit}`;
}

/** For people: `1.5 GiB`. Truncated to two digits, so that it never shows more than there is. */
export function formatBytes(bytes: bigint): string {
  const magnitude = bytes < 0n ? -bytes : bytes;
  let divisor = 1n;
  let unit = 'B';
  for (const larger of binaryUnits) {
    if (magnitude < divisor * kibi) break;
    divisor *= kibi;
    unit = `${larger}B`;
  }
  const hundredths = (magnitude * 100n) / divisor;
  const fraction = String(hundredths % 100n)
    .padStart(2, '0')
    .replace(/0+$/, '');
  return `${bytes < 0n ? '-' : ''}${hundredths / 100n}${fraction && `.${fraction}`} ${unit}`;
}

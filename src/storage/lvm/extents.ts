/** Rounded up to whole extents, and to as many on each stripe. */
export function extentsFor(sizeBytes: bigint, extentBytes: bigint, stripes = 1): bigint {
  const row = BigInt(Math.max(1, stripes));
  return ceilDivide(ceilDivide(sizeBytes, extentBytes), row) * row;
}

function ceilDivide(dividend: bigint, divisor: bigint): bigint {
  return (dividend + divisor - 1n) / divisor;
}

/** `major:minor` of a device; Linux spreads both numbers over the bits of what stat tells. */
export function deviceNumber(device: bigint): string {
  const major = (device >> 8n) & 0xfffn;
  const minor = (device & 0xffn) | ((device >> 12n) & 0xfff00n);
  return `${major}:${minor}`;
}

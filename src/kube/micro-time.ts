/** A moment as Leases and Events write it: with six digits after the second, of which we know three. */
export function microTime(atMs: number): string {
  return new Date(atMs).toISOString().replace('Z', '000Z');
}

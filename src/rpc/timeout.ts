import { InvalidInput } from '../base/errors.ts';

const unitMs: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 };

/** The header `grpc-timeout`: at most eight digits and a unit. */
export function timeoutHeader(timeoutMs: number): string {
  const ms = Math.max(1, Math.ceil(timeoutMs));
  return ms < 100_000_000 ? `${ms}m` : `${Math.ceil(ms / 1000)}S`;
}

/** How long the caller waits; undefined if it does not say. */
export function timeoutOf(header: string | undefined): number | undefined {
  if (header === undefined) return undefined;
  const [, digits, unit = ''] = /^(\d{1,8})([HMSmun])$/.exec(header) ?? [];
  if (digits === undefined) {
    throw new InvalidInput(`grpc-timeout cannot be ${JSON.stringify(header.slice(0, 32))}; write digits and a unit`);
  }
  return Number(digits) * (unitMs[unit] ?? 0);
}

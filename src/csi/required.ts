import { InvalidInput } from '../base/errors.ts';

/** The value of a request's field that must not be empty; `field` is its name in CSI's words. */
export function required<T>(value: T | undefined, field: string): T {
  const empty = value === undefined || value === '' || (Array.isArray(value) && value.length === 0);
  if (empty) throw new InvalidInput(`${field} is missing from the request; set it`);
  return value;
}

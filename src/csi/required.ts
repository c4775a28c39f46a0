import { isAbsolute } from 'node:path';
import { InvalidInput } from '../base/errors.ts';

/** The value of a mandatory request field; `field` is its name in the CSI spec. */
export function required<T>(value: T | undefined, field: string): T {
  const empty = value === undefined || value === '' || (Array.isArray(value) && value.length === 0);
  if (empty) throw new InvalidInput(`${field} is missing from the request; set it`);
  return value;
}

/** The value of a mandatory path field. It must be absolute: the caller does not know our working directory. */
export function requiredPath(value: string, field: string): string {
  return required(optionalPath(value, field), field);
}

/** Undefined if the field is empty. */
export function optionalPath(value: string, field: string): string | undefined {
  if (value === '') return undefined;
  if (!isAbsolute(value)) throw new InvalidInput(`${field} ${value} is not an absolute path; start it with /`);
  return value;
}

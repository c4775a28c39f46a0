import { isAbsolute } from 'node:path';
import { InvalidInput } from '../base/errors.ts';

/** The value of a request's field that must not be empty; `field` is its name in CSI's words. */
export function required<T>(value: T | undefined, field: string): T {
  const empty = value === undefined || value === '' || (Array.isArray(value) && value.length === 0);
  if (empty) throw new InvalidInput(`${field} is missing from the request; set it`);
  return value;
}

/** The value of a field that must name a file or directory. A path that is not absolute is relative to nothing that its caller knows. */
export function requiredPath(value: string, field: string): string {
  return required(optionalPath(value, field), field);
}

/** Undefined if the field is empty. */
export function optionalPath(value: string, field: string): string | undefined {
  if (value === '') return undefined;
  if (!isAbsolute(value)) throw new InvalidInput(`${field} ${value} is not an absolute path; begin it with /`);
  return value;
}

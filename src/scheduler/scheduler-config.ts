import * as v from 'valibot';
import { type Document, parseDocument } from 'yaml';
import { MoorageError } from '../base/errors.ts';

/** The divisor of the capacity of a class, before the logarithm is the score. */
export interface Divisors {
  of(deviceClass: string): number;
}

export interface SchedulerConfig {
  /** `host:port` */
  readonly listen: string;
  readonly divisors: Divisors;
}

/** The scheduler's configuration file is invalid; nothing of it is used. */
export class InvalidSchedulerConfig extends MoorageError {
  readonly code = 'InvalidArgument';

  constructor(mistakes: readonly string[]) {
    super(`invalid scheduler configuration: ${mistakes.join('; ')}`);
  }
}

const divisor = v.pipe(
  v.number('must be a number'),
  v.gtValue(0, 'must be more than 0'),
  v.finite('must be a finite number'),
);

const configSchema = v.nullish(
  v.strictObject(
    {
      listen: v.nullish(v.string('must be text'), ':8000'),
      'default-divisor': v.nullish(divisor, 1),
      divisors: v.nullish(v.record(v.string(), divisor, 'must be a mapping from device class to number'), {}),
      /** The address of Go's profiler in TopoLVM. There is none here, but a file that has it is still valid. */
      'profiling-bind-address': v.nullish(v.string('must be text'), ''),
    },
    (issue) => (issue.expected === 'never' ? 'is unknown; correct or remove it' : 'must be a mapping'),
  ),
  {},
);

/** Parses the configuration of TopoLVM's scheduler. An empty text means all defaults. */
export function parseSchedulerConfig(yaml: string): SchedulerConfig {
  const document: Document = parseDocument(yaml);
  if (document.errors.length > 0) {
    throw new InvalidSchedulerConfig(document.errors.map(({ message }) => `not YAML: ${message.split('\n')[0]}`));
  }
  const result = v.safeParse(configSchema, document.toJS());
  if (!result.success) {
    throw new InvalidSchedulerConfig(
      result.issues.map((issue) => `${v.getDotPath(issue) ?? 'the file'}: ${issue.message}`),
    );
  }
  const { listen, divisors, 'default-divisor': byDefault } = result.output;
  const byClass = new Map(Object.entries(divisors));
  return { listen, divisors: { of: (deviceClass) => byClass.get(deviceClass) ?? byDefault } };
}

import { isDeepStrictEqual } from 'node:util';

/** The parts of a CRD's schema that are compared in detail; all others must be equal. */
export interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly enum?: readonly string[];
  readonly description?: string;
  readonly [keyword: string]: unknown;
}

/**
 * How the new schema could harm an object of the old one: a field was dropped, became required, or has another rule. New
 * fields and new descriptions are harmless. A changed rule may be harmless too, but somebody has to review it.
 */
export function harmfulChanges(old: Schema, current: Schema, path = ''): readonly string[] {
  const { properties = {}, required = [], enum: allowed, description: _, ...rules } = old;
  const {
    properties: nowThere = {},
    required: nowRequired = [],
    enum: nowAllowed,
    description: __,
    ...nowRules
  } = current;
  const harm = nowRequired.filter((name) => !required.includes(name)).map((name) => `${path}.${name} is required now`);
  if (nowAllowed && !allowed?.every((value) => nowAllowed.includes(value))) harm.push(`${path} allows less`);
  for (const keyword of new Set([...Object.keys(rules), ...Object.keys(nowRules)])) {
    if (!isDeepStrictEqual(rules[keyword], nowRules[keyword])) harm.push(`${path} has another ${keyword}`);
  }
  for (const [name, schema] of Object.entries(properties)) {
    const now = nowThere[name];
    harm.push(...(now ? harmfulChanges(schema, now, `${path}.${name}`) : [`${path}.${name} is gone`]));
  }
  return harm;
}

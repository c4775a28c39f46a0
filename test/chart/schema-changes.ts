import { isDeepStrictEqual } from 'node:util';

/** The parts of a CRD's schema that this looks into; all others are compared as they are. */
export interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly enum?: readonly string[];
  readonly description?: string;
  readonly [keyword: string]: unknown;
}

/**
 * What an object of the old schema could suffer under the new one: a field that is forgotten, is needed all of a sudden,
 * or is held to another rule. New fields and new words for old ones are no harm. A rule that was changed may well be
 * harmless, too, but somebody has to think about it.
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

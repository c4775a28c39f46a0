import * as v from 'valibot';
import { parseDocument } from 'yaml';
import { type LocalPvOption, localPvDefaultsKey, localPvOptions } from '../api/local-pv.ts';
import { InvalidInput, messageOf } from '../base/errors.ts';
import { type OptionWords, parseOptions } from './options.ts';

/** Options for PersistentVolumes whose annotations do not set them. */
export interface Defaults {
  readonly general: OptionWords;
  readonly byStorageClass: ReadonlyMap<string, OptionWords>;
}

export const noDefaults: Defaults = { general: {}, byStorageClass: new Map() };

/** The sources of defaults for one StorageClass, those that win first. */
export function defaultsFor({ general, byStorageClass }: Defaults, storageClass: string): readonly OptionWords[] {
  return [byStorageClass.get(storageClass) ?? {}, general];
}

const optionNames = Object.keys(localPvOptions) as LocalPvOption[];
const words = v.record(
  v.picklist(optionNames, `must be one of ${optionNames.join(', ')}`),
  v.pipe(v.union([v.string(), v.boolean()], 'must be text'), v.transform(String)),
);
const schema = v.strictObject(
  { defaults: v.nullish(words, {}), storageClasses: v.nullish(v.record(v.string(), words), {}) },
  'is unknown; use defaults and storageClasses',
);

/**
 * Reads the key `defaults.yaml` of the ConfigMap: `defaults` and, by name, `storageClasses`, each with the options that
 * annotations set. Throws if any of it is invalid, as then none of it is used.
 */
export function parseDefaults(data: Readonly<Record<string, string>>): Defaults {
  const text = data[localPvDefaultsKey];
  if (text === undefined) throw invalid(`it has no key ${localPvDefaultsKey}`);
  const parsed = v.safeParse(schema, readYaml(text));
  if (!parsed.success) {
    throw invalid(parsed.issues.map((issue) => `${v.getDotPath(issue) ?? 'the file'}: ${issue.message}`).join('; '));
  }
  const { defaults: general, storageClasses } = parsed.output;
  mustBeValid('defaults', [general]);
  for (const [name, own] of Object.entries(storageClasses)) mustBeValid(`storageClasses.${name}`, [own, general]);
  return { general, byStorageClass: new Map(Object.entries(storageClasses)) };
}

function mustBeValid(section: string, sources: readonly OptionWords[]): void {
  try {
    parseOptions(sources, (option) => `${section}.${option}`);
  } catch (error) {
    throw invalid(messageOf(error));
  }
}

function readYaml(text: string): unknown {
  const document = parseDocument(text);
  const [mistake] = document.errors;
  if (mistake) throw invalid(`not YAML: ${mistake.message.split('\n')[0]}`);
  return document.toJS() ?? {};
}

function invalid(reason: string): InvalidInput {
  return new InvalidInput(`invalid defaults for static volumes: ${reason}`);
}

import { resolve } from 'node:path';
import * as v from 'valibot';
import { type Document, parseDocument } from 'yaml';
import { MoorageError, messageOf } from '../../base/errors.ts';
import { policyNamed } from '../erase/erase-policy.ts';
import { lvmNames } from '../names-and-tags.ts';
import type { DeviceClass, ErasePolicy, StorageConfig } from './device-classes.ts';

/** lvmd.yaml is invalid; none of it is used. */
export class InvalidStorageConfig extends MoorageError {
  readonly code = 'InvalidArgument';
  readonly mistakes: readonly string[];

  constructor(mistakes: readonly string[]) {
    super(`invalid storage configuration: ${mistakes.join('; ')}`);
    this.mistakes = mistakes;
  }
}

/** Far more than any real configuration: a larger file is something else. */
const maxCharacters = 256 * 1024;

/** Reads TopoLVM's lvmd.yaml. Throws InvalidStorageConfig with every mistake at once, each with its path. */
export function parseStorageConfig(yaml: string): StorageConfig {
  const result = v.safeParse(configSchema, readYaml(yaml));
  if (!result.success)
    throw new InvalidStorageConfig(result.issues.map((issue) => `${pathOf(issue)}: ${issue.message}`));

  const config = result.output;
  const mistakes = contradictions(config);
  if (mistakes.length > 0) throw new InvalidStorageConfig(mistakes);
  return {
    socketPath: config['socket-name'],
    lvmCommand: config['lvm-command-prefix'] as [string, ...string[]],
    deviceClasses: config['device-classes'].map(toDeviceClass),
    optionClasses: config['lvcreate-option-classes'],
  };
}

function readYaml(yaml: string): unknown {
  if (yaml.length > maxCharacters) {
    throw new InvalidStorageConfig([`the file: has ${yaml.length} characters; at most ${maxCharacters} are read`]);
  }
  try {
    const document: Document = parseDocument(yaml);
    if (document.errors.length === 0) return document.toJS();
    throw new InvalidStorageConfig(document.errors.map((error) => `not YAML: ${error.message.split('\n')[0]}`));
  } catch (error) {
    if (error instanceof InvalidStorageConfig) throw error;
    throw new InvalidStorageConfig([`not YAML: ${messageOf(error)}`]); // such as aliases that expand endlessly
  }
}

const bytesPerSpareGb = 1024n ** 3n;
const maxSpareGb = 2 ** 33; // the limit of 64 bits
const maxStripes = 128; // LVM's own limit
const maxPasses = 100;
const defaultSocketPath = '/run/topolvm/lvmd.sock';
/** The node's own LVM, from inside a container. */
const defaultLvmCommand: [string, ...string[]] = [
  '/usr/bin/nsenter',
  ...['-m', '-u', '-i', '-n', '-p', '-t', '1'],
  '/sbin/lvm',
];

/** For a node without lvmd.yaml. */
export const noDeviceClasses: StorageConfig = {
  socketPath: defaultSocketPath,
  lvmCommand: defaultLvmCommand,
  deviceClasses: [],
  optionClasses: [],
};

const text = v.pipe(
  v.string('must be text'),
  v.minLength(1, 'must not be empty'),
  v.maxLength(4096, 'must have at most 4096 characters'),
  v.check((value) => !value.includes('\0'), 'must not contain a NUL character'),
);
const yesOrNo = v.boolean('must be true or false');
const count = (least: number, most: number) =>
  v.pipe(
    v.number('must be a number'),
    v.integer('must be a whole number'),
    v.minValue(least, `must be ${least} or more`),
    v.maxValue(most, `must be ${most} or less`),
  );
const percent = v.pipe(
  v.number('must be a number'),
  v.gtValue(0, 'must be more than 0'),
  v.maxValue(100, 'must be 100 or less'),
);

/** YAML parses 64 as a number; like TopoLVM, accept it where text is expected. */
const wordOrNumber = v.pipe(
  v.union([v.string(), v.pipe(v.number(), v.safeInteger())], 'must be text'),
  v.transform(String),
);
/** Options are passed to LVM unchanged, so what its shell would treat as a quote, comment or separator is refused. */
const optionWord = v.pipe(
  wordOrNumber,
  v.regex(/^[!-~]{1,1024}$/, 'must be one word without spaces; write an option and its value as two entries'),
  v.regex(/^[^"'`\\#]*$/, 'must not contain quotes, "\\" or "#"'),
);
const options = v.array(optionWord, 'must be a list of texts');

const className = v.pipe(
  v.string('must be text'),
  v.regex(
    /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/,
    'must start and end with a letter or digit, with only letters, digits, "-", "_" and "." between',
  ),
  v.maxLength(63, 'must have at most 63 characters'),
);
const lvmName = v.pipe(
  v.string('must be text'),
  v.regex(lvmNames, 'must be a name that LVM allows: at most 127 letters, digits and "_+.-", not beginning with "-"'),
);

/** A known field that does not apply to this type of class. */
const onlyFor = (types: string) => v.nullish(v.never(`is for classes of type ${types}; remove it, or correct type`));

const shared = {
  name: className,
  default: v.nullish(yesOrNo, false),
  'spare-gb': v.nullish(count(0, maxSpareGb), 10),
  erase: v.nullish(v.picklist(['none', 'discard', 'zero', 'shred'], 'must be none, discard, zero or shred'), 'none'),
  'erase-passes': v.nullish(count(1, maxPasses)),
};
const lvm = {
  'volume-group': lvmName,
  stripe: v.nullish(count(0, maxStripes), 0),
  'stripe-size': v.nullish(
    v.pipe(wordOrNumber, v.regex(/^([0-9]+[kmgtpebs]?)?$/i, 'must be a number with an optional unit, such as 64k')),
  ),
  'lvcreate-options': v.nullish(options, []),
  path: onlyFor('file'),
};

const thickSchema = v.strictObject(
  {
    ...shared,
    ...lvm,
    type: v.nullish(v.picklist(['', 'thick']), 'thick'),
    snapshots: v.nullish(v.picklist(['none', 'copy-on-write'], 'must be none or copy-on-write'), 'none'),
    'thin-pool': onlyFor('thin'),
  },
  explain,
);

const thinSchema = v.strictObject(
  {
    ...shared,
    ...lvm,
    type: v.literal('thin'),
    'thin-pool': v.strictObject(
      {
        name: lvmName,
        'overprovision-ratio': v.pipe(
          v.number('must be a number'),
          v.finite('must be finite'),
          v.minValue(1, 'must be 1.0 or more'),
        ),
        'max-data-percent': v.nullish(percent, 90),
        'max-metadata-percent': v.nullish(percent, 85),
      },
      explain,
    ),
    snapshots: onlyFor('thick'),
  },
  explain,
);

const fileSchema = v.strictObject(
  {
    ...shared,
    type: v.literal('file'),
    path: v.pipe(text, v.startsWith('/', 'must be an absolute path')),
    'volume-group': onlyFor('thick or thin'),
    stripe: onlyFor('thick'),
    'stripe-size': onlyFor('thick'),
    'lvcreate-options': onlyFor('thick or thin'),
    'thin-pool': onlyFor('thin'),
    snapshots: onlyFor('thick'),
  },
  explain,
);

const classSchema = v.variant('type', [thickSchema, thinSchema, fileSchema], explain);
type ClassEntry = v.InferOutput<typeof classSchema>;

const configSchema = v.strictObject(
  {
    'socket-name': v.nullish(text, defaultSocketPath),
    'device-classes': v.pipe(
      v.array(classSchema, explainList('device classes')),
      v.minLength(1, 'must name at least one device class'),
    ),
    'lvm-command-prefix': v.nullish(
      v.pipe(
        v.array(text, 'must be a list of texts'),
        v.minLength(1, 'must name the program; leave it out for the default'),
      ),
      defaultLvmCommand,
    ),
    'lvcreate-option-classes': v.nullish(
      v.array(v.strictObject({ name: className, options: v.nullish(options, []) }, explain), explainList('classes')),
      [],
    ),
  },
  explain,
);
type ConfigEntry = v.InferOutput<typeof configSchema>;

/** Describes an entry with an unknown field, a missing field, or an unknown type. */
function explain(issue: v.BaseIssue<unknown>): string {
  if (issue.type === 'variant' && issue.expected !== 'Object') return 'must be thick, thin or file';
  if (issue.expected === 'never') return 'is not a known field; remove it or correct its spelling';
  if (issue.input === undefined) return 'is missing';
  return 'must be a mapping';
}

function explainList(of: string) {
  return ({ input }: v.BaseIssue<unknown>) => (input === undefined ? 'is missing' : `must be a list of ${of}`);
}

function pathOf(issue: v.BaseIssue<unknown>): string {
  const keys = (issue.path ?? []).map((item) => item.key);
  return (
    keys.map((key, i) => (typeof key === 'number' ? `[${key}]` : `${i > 0 ? '.' : ''}${String(key)}`)).join('') ||
    'the file'
  );
}

/** Mistakes that involve more than one field. */
function contradictions(config: ConfigEntry): string[] {
  const mistakes: string[] = [];
  const seen = new Map<string, string>();
  const once = (claim: string, path: string, remedy: string) => {
    const first = seen.get(claim);
    if (first === undefined) seen.set(claim, path);
    else mistakes.push(`${path}: is the same as ${first}; ${remedy}`);
  };
  for (const [index, entry] of config['device-classes'].entries()) {
    const path = `device-classes[${index}]`;
    once(`name ${entry.name}`, `${path}.name`, 'give each class a unique name');
    if (entry.default) once('default', `${path}.default`, 'only one class can be the default');
    if (entry['erase-passes'] !== undefined && entry['erase-passes'] !== null && entry.erase !== 'shred') {
      mistakes.push(`${path}.erase-passes: is for erase: shred only; remove it, or correct erase`);
    }
    if (entry.type === 'file') {
      once(`path ${resolve(entry.path)}`, `${path}.path`, 'give each class its own directory');
    } else if (entry.type === 'thin') {
      const claim = `pool ${entry['volume-group']}/${entry['thin-pool'].name}`;
      once(claim, `${path}.thin-pool.name`, 'a thin pool serves one class');
    } else {
      once(`group ${entry['volume-group']}`, `${path}.volume-group`, 'a volume group serves one thick class');
      if (entry.snapshots === 'copy-on-write' && entry.erase === 'discard') {
        mistakes.push(
          `${path}.erase: cannot be discard with snapshots: copy-on-write, as these and their origins do not support discards; ` +
            'use zero, shred or none, or leave snapshots out',
        );
      }
    }
  }
  for (const [index, { name }] of config['lvcreate-option-classes'].entries()) {
    once(`options ${name}`, `lvcreate-option-classes[${index}].name`, 'give each class a unique name');
  }
  return mistakes;
}

function toDeviceClass(entry: ClassEntry): DeviceClass {
  const base = {
    name: entry.name,
    isDefault: entry.default,
    spareBytes: BigInt(entry['spare-gb']) * bytesPerSpareGb,
    erase: toErasePolicy(entry),
  };
  if (entry.type === 'file') return { ...base, type: 'file', path: resolve(entry.path) };
  const onLvm = {
    ...base,
    volumeGroup: entry['volume-group'],
    stripes: entry.stripe,
    stripeSize: entry['stripe-size'] || undefined,
    lvcreateOptions: entry['lvcreate-options'],
  };
  if (entry.type !== 'thin') return { ...onLvm, type: 'thick', snapshots: entry.snapshots };
  const pool = entry['thin-pool'];
  return {
    ...onLvm,
    type: 'thin',
    thinPool: {
      name: pool.name,
      overprovisionRatio: pool['overprovision-ratio'],
      maxDataPercent: pool['max-data-percent'],
      maxMetadataPercent: pool['max-metadata-percent'],
    },
  };
}

function toErasePolicy(entry: ClassEntry): ErasePolicy {
  const { erase, 'erase-passes': passes } = entry;
  return erase === 'shred' && passes ? { kind: erase, passes } : policyNamed(erase);
}

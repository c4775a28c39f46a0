import * as v from 'valibot';
import { parseDocument } from 'yaml';
import { MoorageError } from '../base/errors.ts';
import type { Command } from '../base/exec.ts';

interface ClassBase {
  readonly name: string;
  /** Serves claims that name no class. */
  readonly isDefault: boolean;
  /** Kept free, whatever is asked for. */
  readonly spareBytes: bigint;
}

/** Volumes are cut from an LVM volume group. */
export interface ThickClass extends ClassBase {
  readonly type: 'thick';
  readonly volumeGroup: string;
  /** 0 leaves it to LVM, which does not stripe. */
  readonly stripes: number;
  readonly stripeSize: string | undefined;
  readonly lvcreateOptions: readonly string[];
}

/** Volumes are files in a directory. */
export interface FileClass extends ClassBase {
  readonly type: 'file';
  readonly path: string;
}

export type DeviceClass = ThickClass | FileClass;

/** What TopoLVM's lvmd.yaml says, and `type: file` besides. */
export interface StorageConfig {
  readonly socketPath: string;
  readonly deviceClasses: readonly DeviceClass[];
  readonly lvmCommand: Command;
}

export class InvalidStorageConfig extends MoorageError {
  readonly code = 'InvalidArgument';
  readonly mistakes: readonly string[];

  constructor(mistakes: readonly string[]) {
    super(`the storage configuration cannot be used: ${mistakes.join('; ')}`);
    this.mistakes = mistakes;
  }
}

/** Throws InvalidStorageConfig with every mistake at once, each with its path. */
export function parseStorageConfig(yaml: string): StorageConfig {
  const document = parseDocument(yaml);
  if (document.errors.length > 0) {
    throw new InvalidStorageConfig(document.errors.map((error) => `not YAML: ${error.message.split('\n')[0]}`));
  }
  const result = v.safeParse(configSchema, document.toJS());
  if (!result.success)
    throw new InvalidStorageConfig(result.issues.map((issue) => `${pathOf(issue)}: ${issue.message}`));

  const config = result.output;
  const mistakes = contradictions(config['device-classes']);
  if (mistakes.length > 0) throw new InvalidStorageConfig(mistakes);
  return {
    socketPath: config['socket-name'],
    lvmCommand: config['lvm-command-prefix'] as [string, ...string[]],
    deviceClasses: config['device-classes'].map(toDeviceClass),
  };
}

const bytesPerSpareGb = 1024n ** 3n;
const defaultSocketPath = '/run/topolvm/lvmd.sock';
/** From inside a container, the node's own LVM. */
const defaultLvmCommand = ['/usr/bin/nsenter', '-m', '-u', '-i', '-n', '-p', '-t', '1', '/sbin/lvm'];

const text = v.pipe(v.string('must be text'), v.minLength(1, 'must not be empty'));
const texts = v.array(text, 'must be a list of texts');
const yesOrNo = v.boolean('must be true or false');
const wholeNumber = v.pipe(
  v.number('must be a number'),
  v.integer('must be a whole number'),
  v.minValue(0, 'must not be negative'),
);

const className = v.pipe(
  v.string('must be text'),
  v.regex(
    /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/,
    'must start and end with a letter or digit, with only letters, digits, "-", "_" and "." between',
  ),
  v.maxLength(63, 'must have at most 63 characters'),
);

const shared = {
  name: className,
  default: v.optional(yesOrNo, false),
  'spare-gb': v.optional(wholeNumber, 10),
};

const thickSchema = v.strictObject(
  {
    ...shared,
    type: v.optional(v.picklist(['', 'thick']), 'thick'),
    'volume-group': v.pipe(text, v.regex(/^[A-Za-z0-9_+.][A-Za-z0-9_+.-]*$/, 'is not a name that LVM allows')),
    stripe: v.optional(wholeNumber, 0),
    'stripe-size': v.optional(
      v.pipe(text, v.regex(/^[0-9]+[kmgtpebs]?$/i, 'must be a number with an optional unit, such as 64k')),
    ),
    'lvcreate-options': v.optional(texts, []),
  },
  explain,
);

const fileSchema = v.strictObject(
  {
    ...shared,
    type: v.literal('file'),
    path: v.pipe(text, v.startsWith('/', 'must be an absolute path')),
  },
  explain,
);

const classSchema = v.variant('type', [thickSchema, fileSchema], explain);
type ClassEntry = v.InferOutput<typeof classSchema>;

const configSchema = v.strictObject(
  {
    'socket-name': v.optional(text, defaultSocketPath),
    'device-classes': v.pipe(
      v.array(classSchema, 'must be a list of device classes'),
      v.minLength(1, 'must name at least one device class'),
    ),
    'lvm-command-prefix': v.optional(
      v.pipe(texts, v.minLength(1, 'must name the program; leave it out for the default')),
      defaultLvmCommand,
    ),
    'lvcreate-option-classes': v.optional(
      v.pipe(v.array(v.unknown(), 'must be a list'), v.maxLength(0, 'is not supported yet; remove it')),
    ),
  },
  explain,
);

/** What is wrong with the shape of an entry: a field too many, a field that is missing, or a type that is not known. */
function explain(issue: v.BaseIssue<unknown>): string {
  if (issue.type === 'variant' && issue.expected !== 'Object')
    return 'must be thick or file; thin is not supported yet';
  if (issue.expected === 'never') return 'is not a known field; remove it or correct its spelling';
  if (issue.input === undefined) return 'is missing';
  return 'must be a mapping';
}

function pathOf(issue: v.BaseIssue<unknown>): string {
  const keys = (issue.path ?? []).map((item) => item.key);
  return (
    keys.map((key, i) => (typeof key === 'number' ? `[${key}]` : `${i > 0 ? '.' : ''}${String(key)}`)).join('') ||
    'the file'
  );
}

/** What each entry alone cannot tell. */
function contradictions(entries: readonly ClassEntry[]): string[] {
  const mistakes: string[] = [];
  const seen = new Map<string, number>();
  const once = (claim: string, index: number, field: string, remedy: string) => {
    const first = seen.get(claim);
    if (first === undefined) seen.set(claim, index);
    else
      mistakes.push(`device-classes[${index}].${field}: is the same as device-classes[${first}].${field}; ${remedy}`);
  };
  for (const [index, entry] of entries.entries()) {
    once(`name ${entry.name}`, index, 'name', 'give each class a name of its own');
    if (entry.default) once('default', index, 'default', 'only one class can be the default');
    if (entry.type === 'file') once(`path ${entry.path}`, index, 'path', 'give each class a directory of its own');
    else once(`group ${entry['volume-group']}`, index, 'volume-group', 'a volume group serves one thick class');
  }
  return mistakes;
}

function toDeviceClass(entry: ClassEntry): DeviceClass {
  const base = {
    name: entry.name,
    isDefault: entry.default,
    spareBytes: BigInt(entry['spare-gb']) * bytesPerSpareGb,
  };
  if (entry.type === 'file') return { ...base, type: 'file', path: entry.path };
  return {
    ...base,
    type: 'thick',
    volumeGroup: entry['volume-group'],
    stripes: entry.stripe,
    stripeSize: entry['stripe-size'],
    lvcreateOptions: entry['lvcreate-options'],
  };
}

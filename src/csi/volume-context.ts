import { ephemeralSizeAttributes, parameterPrefixes, parameters, publishContext } from '../api/names.ts';
import { InvalidInput } from '../base/errors.ts';
import type { Filesystem } from '../filesystem/filesystem.ts';
import { parseMkfsOptions } from '../filesystem/mkfs-options.ts';
import { type Owner, untouchedRoot } from '../filesystem/root.ts';
import type { VolumeUse } from './volume-use.ts';

/** What CreateVolume answers, and the kubelet brings along with each call about the volume: texts by name. */
export type VolumeContext = Readonly<Record<string, string>>;

/** How a new filesystem is made, and whom its root directory belongs to. An old one is left as it is. */
export interface FilesystemSettings {
  readonly mkfsOptions: readonly string[];
  readonly rootMode: number;
  readonly rootOwner: Owner;
}

/** An inline ephemeral volume, which is made when it is published and lives as long as its pod. */
export interface EphemeralVolume {
  readonly sizeBytes: bigint;
  /** Empty for the node's default. */
  readonly deviceClass: string;
  readonly podUid: string;
  /** Attributes that the pod has set and that only a StorageClass may: they are ignored, and no new volume is created with them. */
  readonly forClassesOnly: readonly string[];
}

const settingNames = [parameters.mkfsOptions, parameters.rootMode, parameters.rootOwner] as const;
const classSettingNames: readonly string[] = [parameters.mkfsOptions, parameters.rootOwner];
const gibi = 1024n ** 3n;

/** What of a StorageClass's parameters goes with the volume; throws if the node could not follow it. */
export function contextFor(given: Readonly<Record<string, string>>, use: VolumeUse): Record<string, string> {
  if (use.kind === 'filesystem') filesystemSettings(given, use.filesystem);
  return Object.fromEntries(settingNames.flatMap((name) => (given[name] === undefined ? [] : [[name, given[name]]])));
}

/** The settings in a volume's context, or in the parameters that it comes from. */
export function filesystemSettings(context: VolumeContext, filesystem: Filesystem): FilesystemSettings {
  return {
    mkfsOptions: parseMkfsOptions(filesystem, context[parameters.mkfsOptions] ?? '', parameters.mkfsOptions),
    rootMode: rootMode(context[parameters.rootMode]),
    rootOwner: rootOwner(context[parameters.rootOwner]),
  };
}

/** The context without what the pod cannot decide: for an inline volume the context is written by whoever creates the pod. */
export function withoutClassSettings(context: VolumeContext): VolumeContext {
  return Object.fromEntries(Object.entries(context).filter(([name]) => !classSettingNames.includes(name)));
}

/** Undefined for a volume that exists by itself, such as one of a claim. */
export function ephemeralVolume(context: VolumeContext): EphemeralVolume | undefined {
  if (context[publishContext.ephemeral] !== 'true') return undefined;
  const offered: readonly string[] = [parameters.rootMode, parameters.deviceClass, ...ephemeralSizeAttributes];
  const known = new Set([...offered, ...classSettingNames]);
  const isOurs = (name: string) => parameterPrefixes.some((prefix) => name.startsWith(prefix));
  const unknown = Object.keys(context).find((name) => isOurs(name) && !known.has(name));
  if (unknown !== undefined) {
    throw new InvalidInput(
      `the pod's volume attributes hold ${JSON.stringify(unknown)}, which is unknown; use ${offered.join(', ')}`,
    );
  }
  return {
    sizeBytes: ephemeralSize(context),
    deviceClass: context[parameters.deviceClass] ?? '',
    podUid: context[publishContext.podUid] ?? '',
    forClassesOnly: classSettingNames.filter((name) => context[name] !== undefined),
  };
}

function ephemeralSize(context: VolumeContext): bigint {
  const name = ephemeralSizeAttributes.find((name) => context[name] !== undefined);
  const text = name === undefined ? '1' : (context[name] ?? '');
  if (!/^[1-9]\d{0,6}$/.test(text)) {
    throw new InvalidInput(
      `the pod's volume attribute ${name} is ${JSON.stringify(text)}; write a whole number of GiB, such as 10`,
    );
  }
  return BigInt(text) * gibi;
}

/** Four octal digits at most: what chmod takes. */
function rootMode(text = '2777'): number {
  if (/^[0-7]{3,4}$/.test(text)) return Number.parseInt(text, 8);
  throw new InvalidInput(
    `${parameters.rootMode} is ${JSON.stringify(text)}; write the mode of the root directory in octal digits, such as 0750`,
  );
}

function rootOwner(text?: string): Owner {
  if (text === undefined) return untouchedRoot.owner;
  const [, uid, gid] = /^(\d{1,10}):(\d{1,10})$/.exec(text)?.map(Number) ?? [];
  if (uid !== undefined && gid !== undefined && isId(uid) && isId(gid)) return { uid, gid };
  throw new InvalidInput(
    `${parameters.rootOwner} is ${JSON.stringify(text)}; write the numbers of user and group, such as 1000:1000`,
  );
}

/** The last number means "leave it as it is" to the kernel. */
function isId(id: number): boolean {
  return id < 2 ** 32 - 1;
}

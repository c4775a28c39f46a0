import {
  type LocalPvOption,
  localPvOptions,
  type OnRelease,
  type OnRemoval,
  onReleasePolicies,
  onRemovalPolicies,
} from '../api/local-pv.ts';
import { InvalidInput } from '../base/errors.ts';
import {
  defaultFilesystem,
  type Filesystem,
  filesystemNamed,
  filesystems,
  parseMkfsOptions,
} from '../filesystem/filesystem.ts';

/** Options as words, from the annotations of a PersistentVolume or from one section of the defaults. */
export type OptionWords = Readonly<Partial<Record<LocalPvOption, string>>>;

/** Where a volume is allocated: in a class of the node's configuration, or directly in a volume group. */
export type Place = { readonly deviceClass: string } | { readonly volumeGroup: string };

/** Checked options of a static volume. */
export interface Options {
  readonly filesystem: Filesystem;
  readonly mkfsOptions: readonly string[];
  readonly mountOptions: readonly string[];
  readonly place: Place;
  /** The name of the Secret with the key; undefined for a volume that is not encrypted. */
  readonly cryptSecret: string | undefined;
  readonly autoRelease: boolean;
  /** Undefined: as the device class says. */
  readonly onRemoval: OnRemoval | undefined;
  readonly onRelease: OnRelease;
}

/** Those of k8s-local-pv. */
const builtIn: OptionWords = { fsType: defaultFilesystem.name, mountOpts: 'noexec', vg: 'storage_bulk' };

/** Combines sources of options; earlier ones win. `nameOf` names an option in errors. */
export function parseOptions(sources: readonly OptionWords[], nameOf = annotationOf): Options {
  const all = [...sources, builtIn];
  const word = (option: LocalPvOption) => all.find((source) => source[option] !== undefined)?.[option] ?? '';
  const filesystem = filesystemOf(word('fsType'), nameOf('fsType'));
  const cryptSecret = word('cryptSecret');
  if (cryptSecret !== '') mustMatch(cryptSecret, secretName, nameOf('cryptSecret'), 'the name of a Secret');
  return {
    filesystem,
    mkfsOptions: parseMkfsOptions(filesystem, word('fsOpts'), nameOf('fsOpts')),
    mountOptions: parseMountOptions(word('mountOpts'), nameOf('mountOpts')),
    place: parsePlace(sources, nameOf),
    cryptSecret: cryptSecret || undefined,
    autoRelease: oneOf(['true', 'false'], word('autoRelease'), nameOf('autoRelease')) === 'true',
    onRemoval: oneOf(onRemovalPolicies, word('onRemoval'), nameOf('onRemoval')),
    onRelease: oneOf(onReleasePolicies, word('onRelease'), nameOf('onRelease')) ?? 'zero',
  };
}

function annotationOf(option: LocalPvOption): string {
  return localPvOptions[option];
}

const lvmName = /^(?!\.{1,2}$)[A-Za-z0-9_+.][A-Za-z0-9_+.-]{0,126}$/;
const className = /^(?!-)[-A-Za-z0-9_.]{1,63}$/;
const secretName = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

/** The first source that names either decides. A source that names both means the class, which has its own group. */
export function parsePlace(sources: readonly OptionWords[], nameOf = annotationOf): Place {
  const all = [...sources, builtIn];
  const { deviceClass, vg = '' } = all.find(({ deviceClass, vg }) => deviceClass || vg) ?? {};
  if (deviceClass) {
    return { deviceClass: mustMatch(deviceClass, className, nameOf('deviceClass'), 'the name of a device class') };
  }
  return { volumeGroup: mustMatch(vg, lvmName, nameOf('vg'), 'the name of a volume group') };
}

/** One word: no option can smuggle in another. */
const mountOption = /^[A-Za-z][\w-]*(=[\w.:/+@%-]+)?$/;
/** They mount something else than the volume, or are read by other programs than mount. */
const refusedMountOption =
  /^(r?bind|move|remount|(r|make-r?)?(shared|slave|private|unbindable)|loop|offset|sizelimit|x-)/i;

function parseMountOptions(text: string, field: string): readonly string[] {
  const words = text.split(',').map((word) => word.trim());
  return words
    .filter((word) => word !== '')
    .map((word) => {
      if (mountOption.test(word) && !refusedMountOption.test(word)) return word;
      throw new InvalidInput(
        `${field} contains ${JSON.stringify(word)}, which is not an allowed mount option; ` +
          'write mount options of the filesystem, separated by commas, such as noexec,noatime',
      );
    });
}

function filesystemOf(name: string, field: string): Filesystem {
  const filesystem = filesystemNamed(name);
  if (filesystem) return filesystem;
  const known = filesystems.map(({ name }) => name).join(', ');
  throw new InvalidInput(`${field} is ${JSON.stringify(name)}; use one of ${known}`);
}

/** Undefined if the option is not set. */
function oneOf<T extends string>(choices: readonly T[], word: string, field: string): T | undefined {
  const choice = choices.find((candidate) => candidate === word);
  if (choice !== undefined || word === '') return choice;
  throw new InvalidInput(`${field} is ${JSON.stringify(word)}; use one of ${choices.join(', ')}`);
}

function mustMatch(word: string, pattern: RegExp, field: string, what: string): string {
  if (pattern.test(word)) return word;
  throw new InvalidInput(`${field} is ${JSON.stringify(word.slice(0, 128))}; write ${what}`);
}

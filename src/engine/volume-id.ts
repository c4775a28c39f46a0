import { InvalidInput } from '../base/errors.ts';
import type { NewVolume, VolumeId } from './pool.ts';
import { isForAnyVolume, isForNewVolume } from './tags.ts';

const reservedPrefixes = ['snapshot', 'pvmove'];
const reservedParts =
  /_(cdata|cmeta|corig|cpool|cvol|imeta|iorig|mimage|mlog|pmspare|rimage|rmeta|tdata|tmeta|vdata|vorigin|wcorig)/;

/** What LVM accepts as the name of a logical volume. File pools use the same rules, so that a claim can move between pools. */
export function checkVolumeId(id: VolumeId): void {
  const wrong =
    !/^[A-Za-z0-9_+.][A-Za-z0-9_+.-]{0,99}$/.test(id) ||
    id === '.' ||
    id === '..' ||
    reservedParts.test(id) ||
    reservedPrefixes.some((prefix) => id.startsWith(prefix));
  if (wrong) {
    throw new InvalidInput(
      `volume name ${JSON.stringify(id.slice(0, 128))} is not allowed; use at most 100 letters, digits and "_+.-", ` +
        'not beginning with "-", "snapshot" or "pvmove", and none of the suffixes that LVM reserves',
    );
  }
}

/** What LVM accepts as a tag. */
export function checkTags(tags: readonly string[]): void {
  for (const tag of tags) {
    if (/^[A-Za-z0-9_+./=!:&#][A-Za-z0-9_+./=!:&#-]{0,1023}$/.test(tag)) continue;
    throw new InvalidInput(
      `tag ${JSON.stringify(tag.slice(0, 128))} is not allowed; use letters, digits and "_+./=!:&#-", not beginning with "-"`,
    );
  }
}

/** The tags that a caller may set on a new volume or copy. */
export function checkNewTags(tags: readonly string[]): void {
  checkTags(tags);
  refuseOwn(tags.find((tag) => !isForNewVolume(tag)));
}

/** The tags that a caller may add to a volume. */
export function checkAddedTags(tags: readonly string[]): void {
  checkTags(tags);
  refuseOwn(tags.find((tag) => !isForAnyVolume(tag)));
}

/** With one of our own tags a caller could get a volume erased, or treated as unfinished. */
function refuseOwn(tag: string | undefined): void {
  if (tag) throw new InvalidInput(`tag ${tag.slice(0, 128)} is reserved for Moorage; leave it out`);
}

export function checkNewVolume(wanted: NewVolume): void {
  checkVolumeId(wanted.id);
  checkNewTags(wanted.tags);
  if (wanted.sizeBytes <= 0n) {
    throw new InvalidInput(`invalid size ${wanted.sizeBytes} of volume ${wanted.id}; request at least one byte`);
  }
}

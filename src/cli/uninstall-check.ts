import { logicalVolumes, type StoredLogicalVolume } from '../api/logical-volume.ts';
import { claimKey } from '../api/names.ts';
import { MoorageError } from '../base/errors.ts';

/** The client methods that the check uses. */
interface Volumes {
  list(resource: typeof logicalVolumes): Promise<{ readonly items: readonly StoredLogicalVolume[] }>;
}

const shown = 5;

/** Fails while there are volumes: without Moorage they can be neither used nor removed. */
export async function checkUninstall(volumes: Volumes): Promise<void> {
  const { items } = await volumes.list(logicalVolumes);
  if (items.length > 0) throw new VolumesLeft(items);
}

export class VolumesLeft extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(volumes: readonly StoredLogicalVolume[]) {
    const names = volumes.slice(0, shown).map(({ metadata, spec }) => {
      const claim = metadata.annotations?.[claimKey];
      return `${metadata.name} on ${spec.nodeName}${claim ? ` (claim ${claim})` : ''}`;
    });
    const more = volumes.length > shown ? ` and ${volumes.length - shown} more` : '';
    super(
      `the cluster still has volumes: ${names.join(', ')}${more}; delete their claims and snapshots first, ` +
        'or keep them on their disks with: helm uninstall --no-hooks; to stay installed: helm rollback',
    );
  }
}

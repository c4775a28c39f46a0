import { localPvAnnotations, localPvFinalizer } from '../api/local-pv.ts';
import { logicalVolumes, type StoredLogicalVolume } from '../api/logical-volume.ts';
import { claimKey } from '../api/names.ts';
import { MoorageError } from '../base/errors.ts';
import { isNotFound } from '../kube/api-error.ts';
import type { KubeClient } from '../kube/client.ts';
import { type PersistentVolume, persistentVolumes, type Stored } from '../kube/resource.ts';

const shown = 5;

/** Fails while there are volumes: without Moorage they can be neither used nor removed. */
export async function checkUninstall(client: Pick<KubeClient, 'list'>): Promise<void> {
  const statics = await client.list(persistentVolumes, { project: staticVolumeText });
  const left = [...(await logicalVolumesLeft(client)), ...statics.items.filter((text) => text !== undefined)];
  if (left.length > 0) throw new VolumesLeft(left);
}

/** A cluster with static volumes only does not have the kind. */
async function logicalVolumesLeft(client: Pick<KubeClient, 'list'>): Promise<readonly string[]> {
  try {
    return (await client.list(logicalVolumes, { project: logicalVolumeText })).items;
  } catch (error) {
    if (isNotFound(error)) return [];
    throw error;
  }
}

function logicalVolumeText({ metadata, spec }: StoredLogicalVolume): string {
  return textOf(metadata.name, spec.nodeName, metadata.annotations?.[claimKey]);
}

/** Undefined for a PersistentVolume that is not a static volume of Moorage. */
function staticVolumeText({ metadata, spec }: Stored<PersistentVolume>): string | undefined {
  const { name, finalizers, annotations } = metadata;
  if (!finalizers?.includes(localPvFinalizer)) return undefined;
  const { claimRef } = spec ?? {};
  return textOf(
    name,
    annotations?.[localPvAnnotations.node] ?? '',
    claimRef && `${claimRef.namespace}/${claimRef.name}`,
  );
}

function textOf(name: string, node: string, claim: string | undefined): string {
  return `${name} on ${node}${claim ? ` (claim ${claim})` : ''}`;
}

export class VolumesLeft extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(volumes: readonly string[]) {
    const more = volumes.length > shown ? ` and ${volumes.length - shown} more` : '';
    super(
      `the cluster still has volumes: ${volumes.slice(0, shown).join(', ')}${more}; ` +
        'docs/install.md#uninstall says how to keep them on their disks; to stay installed: helm rollback',
    );
  }
}

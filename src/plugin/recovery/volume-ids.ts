import { type LogicalVolume, logicalVolumes } from '../../api/logical-volume.ts';
import { adoptAnnotation, driverName } from '../../api/names.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type KubeObject, type PersistentVolume, persistentVolumes } from '../../kube/resource.ts';
import { nodeOf } from '../facts.ts';

interface Use {
  readonly id: string;
  readonly nodeName: string;
  /** The kind and name of the object. */
  readonly object: string;
}

/**
 * The objects that use a volume ID. Volume handles must be unique in a cluster, but on the disks a name is unique only
 * within its node: two nodes may both have a volume `data`.
 */
export class VolumeIds {
  readonly #uses = new Map<string, Use[]>();

  add(use: Use | undefined): void {
    if (use) this.#uses.set(use.id, [...(this.#uses.get(use.id) ?? []), use]);
  }

  hasPersistentVolume(id: string): boolean {
    return this.#uses.get(id)?.some(({ object }) => object.startsWith(`${persistentVolumes.kind} `)) ?? false;
  }

  /** What uses the ID for a volume of another node. */
  usedElsewhere(id: string, nodeName: string): string | undefined {
    const use = this.#uses.get(id)?.find((each) => each.nodeName !== nodeName);
    return use && `${use.object} of node ${use.nodeName}`;
  }
}

export async function readVolumeIds(client: KubeClient, signal: AbortSignal): Promise<VolumeIds> {
  const lists = await Promise.all([
    client.list(logicalVolumes, { project: (object) => useOf({ kind: logicalVolumes.kind, ...object }), signal }),
    client.list(persistentVolumes, { project: (object) => useOf({ kind: persistentVolumes.kind, ...object }), signal }),
  ]);
  const ids = new VolumeIds();
  for (const { items } of lists) for (const use of items) ids.add(use);
  return ids;
}

/** Undefined for an object of another kind or driver, or of an unknown node. */
export function useOf(object: KubeObject): Use | undefined {
  const name = `${object.kind} ${object.metadata?.name}`;
  if (object.kind === logicalVolumes.kind) {
    const { metadata, spec, status } = object as Partial<LogicalVolume>; // a person may have written it
    const id = status?.volumeID || metadata?.annotations?.[adoptAnnotation] || metadata?.uid;
    return id && spec ? { id, nodeName: spec.nodeName, object: name } : undefined;
  }
  const volume = object as PersistentVolume;
  const nodeName = nodeOf(volume);
  if (object.kind !== persistentVolumes.kind || volume.spec?.csi?.driver !== driverName || !nodeName) return undefined;
  return { id: volume.spec.csi.volumeHandle, nodeName, object: name };
}

/** What to do about a volume whose ID is used elsewhere. */
export function renameFirst(usedBy: string): string {
  return `${usedBy} has the same volume ID, which must be unique in the cluster; rename the logical volume on its node with lvrename first`;
}

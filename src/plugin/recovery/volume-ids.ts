import { type LogicalVolume, logicalVolumes } from '../../api/logical-volume.ts';
import { adoptAnnotation, driverName } from '../../api/names.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type KubeObject, type PersistentVolume, persistentVolumes } from '../../kube/resource.ts';
import { nodeOf } from '../facts.ts';
import { deletionOf } from '../orphans.ts';

/** An object that has a volume ID. */
export interface Use {
  readonly id: string;
  readonly nodeName: string;
  readonly kind: string;
  readonly name: string;
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
    return this.#uses.get(id)?.some(isPersistentVolume) ?? false;
  }

  /** What uses the ID for a volume of another node: if possible, a PersistentVolume. */
  usedElsewhere(id: string, nodeName: string): Use | undefined {
    const others = (this.#uses.get(id) ?? []).filter((each) => each.nodeName !== nodeName);
    return others.find(isPersistentVolume) ?? others[0];
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
  const { kind = '', metadata: { name = '' } = {} } = object;
  if (object.kind === logicalVolumes.kind) {
    const { metadata, spec, status } = object as Partial<LogicalVolume>; // a person may have written it
    const id = status?.volumeID || metadata?.annotations?.[adoptAnnotation] || metadata?.uid;
    return id && spec ? { id, nodeName: spec.nodeName, kind, name } : undefined;
  }
  const volume = object as PersistentVolume;
  const nodeName = nodeOf(volume);
  if (object.kind !== persistentVolumes.kind || volume.spec?.csi?.driver !== driverName || !nodeName) return undefined;
  return { id: volume.spec.csi.volumeHandle, nodeName, kind, name };
}

function isPersistentVolume({ kind }: Pick<Use, 'kind'>): boolean {
  return kind === persistentVolumes.kind;
}

/**
 * What to do about a volume whose ID an object of another node has. If that object has also the name that the volume would
 * get, then it is the same volume, and its disks were moved from one machine to the other.
 */
export function sameId(other: Use, volumeName: string | undefined): string {
  const clash = `${other.kind} ${other.name} of node ${other.nodeName} has the same volume ID, which must be unique in the cluster`;
  if (other.name !== volumeName) return `${clash}; rename the logical volume on its node with lvrename first`;
  const removal = isPersistentVolume(other) ? `kubectl moorage purge pv/${other.name}` : deletionOf(other.name);
  return (
    `${clash}: if its disks were moved here from node ${other.nodeName}, first remove the old objects, ` +
    `which leaves the data on this node alone: ${removal}`
  );
}

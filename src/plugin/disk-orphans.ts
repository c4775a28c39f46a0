import { bytesOf } from '../api/logical-volume.ts';
import { claimKey, ephemeralTag, podTag, volumeTag } from '../api/names.ts';
import type { NodeStorageStatus } from '../api/node-storage.ts';
import { createdTag, erasingTag, retiredTag, tagValue } from '../engine/names-and-tags.ts';
import type { NodeFacts } from './facts.ts';
import type { Orphan } from './orphans.ts';

/** A volume on the disks of a node that has no object, as its agent reports it. */
type DiskVolume = NodeStorageStatus['orphans']['volumes'][number];
type Resolution = Pick<Orphan, 'kind' | 'reason' | 'first' | 'keep' | 'remove'>;

/** `agents` are the pods of agents, by node: volumes without an object are removed there. */
export function diskOrphans({ name: node, status }: NodeFacts, agents: ReadonlyMap<string, string>): readonly Orphan[] {
  const onNode = (command: string) => {
    const [namespace, pod] = agents.get(node)?.split('/') ?? [];
    return pod
      ? `kubectl exec -n ${namespace} ${pod} -- ${command}`
      : `${command}   # in the moorage-node pod of ${node}`;
  };
  return (status?.orphans.volumes ?? []).map((volume) => {
    const { name, size, since, tags } = volume;
    const [claim, pod] = [tagValue(tags, claimKey), tagValue(tags, podTag)];
    const lastOwner = claim ?? (pod && `pod ${pod}`);
    const { kind, ...resolution } = (isWithoutClass(volume) ? withoutClass : withClass)(volume, node, onNode);
    const known = { ...(since && { since }), ...(lastOwner && { lastOwner }) };
    return { kind, name, node, sizeBytes: bytesOf(size), ...known, ...resolution };
  });
}

function withClass(volume: DiskVolume, node: string, onNode: (command: string) => string): Resolution {
  const { name, tags, readOnly } = volume;
  if (tags.includes(ephemeralTag)) {
    return {
      kind: 'InlineLeftover',
      reason: 'the pod of this inline volume is gone; a restarted agent removes it too',
      remove: onNode(removalOf(volume)),
    };
  }
  const isOurs = tags.includes(createdTag);
  const named = tagValue(tags, volumeTag) ? '' : ` --volume ${name}`;
  const isImported = !readOnly && !tags.includes(retiredTag);
  return {
    kind: 'DiskOnly',
    reason: `${readOnly ? 'a snapshot ' : ''}on the disks of its node, without a LogicalVolume${isOurs ? '' : ', and not created by Moorage'}`,
    ...(isImported && { keep: importOf(node, named) }),
    ...(isOurs && { remove: onNode(removalOf(volume)) }),
  };
}

/** With its class it is like any other volume without an object, but nobody knows what the class was called. */
function withoutClass(volume: DiskVolume, node: string, onNode: (command: string) => string): Resolution {
  const first = `add ${classEntryFor(volume)} to the device classes of node ${node}`;
  const place = placeOf(volume);
  if (volume.tags.includes(erasingTag)) {
    const reason = `it was removed, and its data is being erased; that continues when ${place} has a device class`;
    return { kind: 'ClassGone', reason, first };
  }
  const { keep, remove } = withClass(volume, node, onNode);
  const reason = `in ${place}, without a LogicalVolume, and its device class was removed from the configuration`;
  return { kind: 'ClassGone', reason, first, ...(keep && { keep }), ...(remove && { remove }) };
}

export function isWithoutClass({ deviceClass }: DiskVolume): boolean {
  return deviceClass === undefined;
}

/** The entry of lvmd.yaml that brings the volume back. Its name may be any other. */
export function classEntryFor({ volumeGroup = '', thinPool }: DiskVolume): string {
  const entry = `name: ${thinPool ?? volumeGroup}, volume-group: ${volumeGroup}`;
  return thinPool ? `{${entry}, type: thin, thin-pool: {name: ${thinPool}, overprovision-ratio: 1}}` : `{${entry}}`;
}

function placeOf({ volumeGroup = '', thinPool }: DiskVolume): string {
  return thinPool ? `thin pool ${volumeGroup}/${thinPool}` : `volume group ${volumeGroup}`;
}

function removalOf({ name, tags }: DiskVolume): string {
  return `moorage volume rm${tagValue(tags, claimKey) ? ' --force' : ''} ${name}`;
}

export function importOf(node: string, named = ''): string {
  return `kubectl moorage import --node ${node}${named} > ${node}.yaml\nkubectl moorage import -f ${node}.yaml   # after a review`;
}

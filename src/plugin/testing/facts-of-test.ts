import type { Facts, PersistentVolumeFacts, VolumeFacts } from '../facts.ts';

const gibibyte = 1024n ** 3n;
const createdAt = '2026-01-07T00:00:00Z';

export const noVolumes: Facts = {
  volumes: [],
  persistentVolumes: new Map(),
  claims: new Map(),
  users: new Map(),
  agents: new Map(),
  staticVolumes: [],
};

/** A volume that nothing is wrong with. */
export function volumeOfTest(changes: Partial<VolumeFacts> = {}): VolumeFacts {
  const { name = 'pvc-1' } = changes;
  return {
    name,
    node: 'a',
    deviceClass: 'ssd',
    sizeBytes: gibibyte,
    createdAt,
    volumeId: `id-${name}`,
    claim: undefined,
    isSnapshot: false,
    isEncrypted: false,
    isDeleting: false,
    isNodeGone: false,
    isMissing: false,
    isReceiving: false,
    failure: undefined,
    growthFailure: undefined,
    removalFailure: undefined,
    ...changes,
  };
}

/** That of the volume with this name. */
export function persistentVolumeOfTest(changes: Partial<PersistentVolumeFacts> = {}): PersistentVolumeFacts {
  const { name = 'pvc-1' } = changes;
  return {
    name,
    handle: `id-${name}`,
    phase: 'Bound',
    storageClass: 'fast',
    claim: 'shop/db',
    node: 'a',
    sizeBytes: gibibyte,
    isRetained: true,
    createdAt,
    phaseSince: undefined,
    ...changes,
  };
}

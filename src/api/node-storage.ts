import type { ObjectOf } from './crd/crd.ts';
import type { nodeStorageCrd } from './crd/node-storage.ts';
import { nodeStorage } from './names.ts';
import type { Resource } from './object.ts';

/** What is on the disks of one node, as its agent reports it. The fields are in its CRD. */
export type NodeStorage = ObjectOf<typeof nodeStorageCrd>;
export type NodeStorageStatus = NonNullable<NodeStorage['status']>;

export const nodeStorages: Resource<NodeStorage> = {
  group: nodeStorage.group,
  version: nodeStorage.version,
  plural: nodeStorage.plural,
  kind: nodeStorage.kind,
  namespaced: false,
};

/** The longest list of volumes in a NodeStorage, which must stay small; a total says how many there are. */
export const listLimit = 100;

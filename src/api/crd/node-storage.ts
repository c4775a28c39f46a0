import { nodeStorage } from '../names.ts';
import { listLimit } from '../node-storage.ts';
import { type CrdSpec, quantity, type Schema } from './crd.ts';

const health = {
  description: 'Degraded: it is served, with a restriction. Unavailable: it is not served.',
  type: 'string',
  enum: ['Healthy', 'Degraded', 'Unavailable'],
} as const satisfies Schema;

const pool = {
  type: 'object',
  required: ['deviceClass', 'health'],
  properties: {
    deviceClass: { description: 'The device class that the pool serves.', type: 'string' },
    default: { description: 'Whether it serves claims that name no device class.', type: 'boolean' },
    type: { description: 'As in lvmd.yaml.', type: 'string', enum: ['thick', 'thin', 'file'] },
    volumeGroup: { description: 'The LVM volume group.', type: 'string' },
    volumeGroupUUID: {
      description: 'Identifies the volume group, also on another machine. Unset while the volume group is missing.',
      type: 'string',
    },
    thinPool: { description: 'The thin pool in the volume group.', type: 'string' },
    directory: { description: 'The directory of a file pool.', type: 'string' },
    health,
    reason: { description: 'Why it is not healthy, and what to do.', type: 'string' },
    size: {
      description: 'The size of the volume group, the thin pool, or the filesystem of the directory.',
      ...quantity,
    },
    used: { description: 'How much of the size is taken; of a thin pool, what is written.', ...quantity },
    free: { description: 'Available to new volumes.', ...quantity },
    spare: { description: 'Always kept free.', ...quantity },
    volumes: { description: 'How many volumes it has.', type: 'integer', format: 'int32' },
    thin: {
      description: 'Usage of the thin pool, rounded up to whole percents.',
      type: 'object',
      required: ['dataPercent', 'metadataPercent'],
      properties: {
        dataPercent: { type: 'integer', format: 'int32' },
        metadataPercent: { type: 'integer', format: 'int32' },
      },
    },
  },
} as const satisfies Schema;

const total = {
  description: 'How many there are; only the first of them may be listed.',
  type: 'integer',
  format: 'int32',
} as const satisfies Schema;

const erasures = {
  description: 'Removed volumes whose data is being erased. Their space is not free yet.',
  type: 'object',
  required: ['total', 'volumes'],
  properties: {
    total,
    volumes: {
      type: 'array',
      maxItems: listLimit,
      items: {
        type: 'object',
        required: ['name', 'deviceClass', 'size', 'donePercent'],
        properties: {
          name: { description: 'The name on the disks.', type: 'string' },
          deviceClass: { type: 'string' },
          size: { description: 'What is overwritten, all passes together.', ...quantity },
          donePercent: { type: 'integer', format: 'int32' },
        },
      },
    },
  },
} as const satisfies Schema;

const orphans = {
  description:
    "Volumes on the node's disks that have no LogicalVolume. The inline volume of a pod counts once the pod is gone from the node.",
  type: 'object',
  required: ['total', 'volumes'],
  properties: {
    total,
    volumes: {
      type: 'array',
      maxItems: listLimit,
      items: {
        type: 'object',
        required: ['name', 'size', 'tags'],
        properties: {
          name: { description: 'The name on the disks.', type: 'string' },
          deviceClass: {
            description:
              'Unset if no device class has the volume, because its class was removed from the configuration. Then volumeGroup and thinPool say where it is.',
            type: 'string',
          },
          volumeGroup: { description: 'Set if no device class has the volume.', type: 'string' },
          thinPool: { description: 'Set if no device class has the volume, and it is thin.', type: 'string' },
          size: quantity,
          readOnly: { description: 'Set for snapshots.', type: 'boolean' },
          tags: {
            description: 'The tags of the volume on the disks, which name its former owner.',
            type: 'array',
            items: { type: 'string' },
          },
          since: {
            description: 'When the running agent first saw it without an object.',
            type: 'string',
            format: 'date-time',
          },
        },
      },
    },
  },
} as const satisfies Schema;

const versions = {
  description: 'Versions of what the agent uses; unset if it cannot determine one.',
  type: 'object',
  properties: {
    moorage: { type: 'string' },
    kernel: { type: 'string' },
    lvm: { type: 'string' },
    e2fsprogs: { type: 'string' },
    xfsprogs: { type: 'string' },
    btrfsProgs: { type: 'string' },
  },
} as const satisfies Schema;

const features = {
  description: 'What kernel and LVM can do.',
  type: 'object',
  properties: {
    ioLimits: { description: 'Whether IO limits of volumes can be enforced.', type: 'boolean' },
    segmentTypes: {
      description: 'The segment types of LVM, such as thin, snapshot or raid1; variants of RAID levels are left out.',
      type: 'array',
      items: { type: 'string' },
    },
  },
} as const satisfies Schema;

const swap = {
  description: 'Where the node swaps to, on disks. Unset if that is unknown.',
  type: 'array',
  maxItems: listLimit,
  items: {
    type: 'object',
    required: ['device', 'protection'],
    properties: {
      device: { description: 'The block device or the file.', type: 'string' },
      protection: {
        description: 'Encrypted if all of it is on dm-crypt. Unknown for files.',
        type: 'string',
        enum: ['Encrypted', 'Plain', 'Unknown'], // not Yes and No, which are booleans in YAML,
      },
    },
  },
} as const satisfies Schema;

/**
 * What is on the disks of one node, for people and tools. Its agent writes it, and nobody owns it: it outlives the Node.
 * Without the status subresource, so that one request writes it, also the first time.
 */
export const nodeStorageCrd = {
  group: nodeStorage.group,
  scope: 'Cluster',
  names: {
    kind: nodeStorage.kind,
    listKind: `${nodeStorage.kind}List`,
    plural: nodeStorage.plural,
    singular: 'nodestorage',
  },
  versions: [
    {
      name: nodeStorage.version,
      served: true,
      storage: true,
      additionalPrinterColumns: [
        { name: 'Health', type: 'string', jsonPath: '.status.health' },
        { name: 'Orphans', type: 'integer', jsonPath: '.status.orphans.total' },
        { name: 'Erasing', type: 'integer', jsonPath: '.status.erasures.total' },
        { name: 'Version', type: 'string', jsonPath: '.status.versions.moorage' },
        { name: 'LVM', type: 'string', jsonPath: '.status.versions.lvm', priority: 1 },
        { name: 'Kernel', type: 'string', jsonPath: '.status.versions.kernel', priority: 1 },
        { name: 'Updated', type: 'date', jsonPath: '.status.updatedAt' },
      ],
      schema: {
        openAPIV3Schema: {
          description:
            'The storage of one node, which has the same name. Written by the agent of the node when something changes, and kept when the Node is deleted.',
          type: 'object',
          properties: {
            apiVersion: { type: 'string' },
            kind: { type: 'string' },
            metadata: { type: 'object' },
            status: {
              type: 'object',
              required: ['nodeUID', 'updatedAt', 'pools', 'erasures', 'orphans', 'versions', 'features'],
              'x-kubernetes-map-type': 'atomic', // one writer: no need to record who manages which field
              properties: {
                nodeUID: {
                  description: 'The uid of the Node: a new machine with an old name has another one.',
                  type: 'string',
                },
                updatedAt: {
                  description: 'When this was written. It stays the same while nothing changes.',
                  type: 'string',
                  format: 'date-time',
                },
                health: { ...health, description: 'That of the worst pool.' },
                pools: { description: 'One per device class.', type: 'array', items: pool },
                erasures,
                orphans,
                versions,
                features,
                swap,
              },
            },
          },
        },
      },
    },
  ],
} as const satisfies CrdSpec;

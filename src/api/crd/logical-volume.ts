import { claimKey, logicalVolume, resizeRequestedAnnotation } from '../names.ts';
import { type CrdSpec, quantity, type Rule, type Schema } from './crd.ts';

/** A missing field and an empty one are the same. */
function unchanged(field: string, why: string): Rule {
  const value = (self: string) => `(has(${self}.${field}) ? ${self}.${field} : "")`;
  return {
    rule: `${value('self')} == ${value('oldSelf')}`,
    message: `${field} cannot be changed; ${why}`,
    fieldPath: `.${field}`,
  };
}

const spec = {
  description: 'What the controller requests.',
  type: 'object',
  required: ['name', 'nodeName', 'size'],
  // These fields identify the volume.
  'x-kubernetes-validations': [
    {
      rule: 'self.name == oldSelf.name',
      message: 'name cannot be changed; make another LogicalVolume',
      fieldPath: '.name',
    },
    {
      rule: 'self.nodeName == oldSelf.nodeName',
      message: 'nodeName cannot be changed; a volume is on the disks of its node',
      fieldPath: '.nodeName',
    },
    unchanged('deviceClass', 'make another LogicalVolume'),
    unchanged('lvcreateOptionClass', 'make another LogicalVolume'),
    unchanged('source', 'what a volume was copied from is on its disks already'),
    unchanged('accessType', 'make another copy'),
  ],
  properties: {
    name: {
      description: 'The name that the caller of CreateVolume or CreateSnapshot chose.',
      type: 'string',
      minLength: 1,
      maxLength: 253,
    },
    nodeName: { description: 'The node whose disks hold the volume.', type: 'string', maxLength: 253 },
    size: {
      description: 'The requested size; the node rounds it up.',
      ...quantity,
      'x-kubernetes-validations': [
        { rule: 'quantity(string(self)).isGreaterThan(quantity("0"))', message: 'size must be above zero' },
      ],
    },
    deviceClass: {
      description: "The device class; the node's default class if it is empty.",
      type: 'string',
      maxLength: 253,
    },
    lvcreateOptionClass: {
      description: "A class of lvcreate options from the node's configuration.",
      type: 'string',
      maxLength: 253,
    },
    source: { description: 'For a copy: spec.name of its source.', type: 'string', maxLength: 253 },
    accessType: {
      description: 'For a copy: ro for a snapshot, rw for a clone, which is a volume like any other.',
      type: 'string',
      enum: ['', 'ro', 'rw'],
    },
  },
} as const satisfies Schema;

const status = {
  description: 'What the node reports.',
  type: 'object',
  properties: {
    volumeID: {
      description: "The volume's name on the node's disks, and its CSI volume ID; set once the volume exists.",
      type: 'string',
    },
    code: {
      description: 'A gRPC status code; not 0 if the volume could not be created, grown or removed.',
      type: 'integer',
      format: 'int32',
    },
    message: { description: 'What failed, why, and what to do.', type: 'string' },
    currentSize: { description: 'The actual size, which may exceed the requested one.', ...quantity },
    answeredResize: {
      description: `The value of the annotation ${resizeRequestedAnnotation} that code, message and currentSize answer.`,
      type: 'string',
    },
    missingFrom: {
      description: 'The uid of the Node whose disks do not have the volume, although a node of this name created it.',
      type: 'string',
    },
  },
} as const satisfies Schema;

/** TopoLVM's kind: objects that it created stay valid, and existing messages and rules are kept. */
export const logicalVolumeCrd = {
  group: logicalVolume.group,
  scope: 'Cluster',
  names: {
    kind: logicalVolume.kind,
    listKind: `${logicalVolume.kind}List`,
    plural: logicalVolume.plural,
    singular: 'logicalvolume',
  },
  versions: [
    {
      name: logicalVolume.version,
      served: true,
      storage: true,
      subresources: { status: {} },
      // A node watches only its own volumes; the controller looks up volumes that are not in its cache yet.
      selectableFields: [{ jsonPath: '.spec.nodeName' }, { jsonPath: '.status.volumeID' }],
      additionalPrinterColumns: [
        { name: 'Node', type: 'string', jsonPath: '.spec.nodeName' },
        { name: 'Class', type: 'string', jsonPath: '.spec.deviceClass' },
        { name: 'Size', type: 'string', jsonPath: '.status.currentSize' },
        { name: 'Claim', type: 'string', jsonPath: `.metadata.annotations.${claimKey.replace('.', '\\.')}` },
        { name: 'Source', type: 'string', jsonPath: '.spec.source', priority: 1 },
        { name: 'Message', type: 'string', jsonPath: '.status.message', priority: 1 },
        { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
      ],
      schema: {
        openAPIV3Schema: {
          description:
            'One volume or snapshot on one node: the controller requests it in spec, the node answers in status.',
          type: 'object',
          required: ['spec'],
          // Rules with oldSelf run only on updates, so existing objects stay valid.
          'x-kubernetes-validations': [
            {
              rule:
                '!quantity(string(self.spec.size)).isLessThan(quantity(string(oldSelf.spec.size))) || ' +
                'has(self.status) && has(self.status.currentSize) && ' +
                '!quantity(string(self.spec.size)).isLessThan(quantity(string(self.status.currentSize)))',
              message: 'size cannot be lowered below status.currentSize; a volume only grows',
              fieldPath: '.spec.size',
            },
            // Here and not below status, because a writer could omit status as a whole.
            {
              rule:
                '!has(oldSelf.status) || !has(oldSelf.status.volumeID) || oldSelf.status.volumeID == "" || ' +
                'has(self.status) && has(self.status.volumeID) && self.status.volumeID == oldSelf.status.volumeID',
              message: 'volumeID cannot be changed once it is set; it says which volume this is',
              fieldPath: '.status.volumeID',
            },
          ],
          properties: {
            apiVersion: { type: 'string' },
            kind: { type: 'string' },
            metadata: { type: 'object' },
            spec,
            status,
          },
        },
      },
    },
  ],
} as const satisfies CrdSpec;

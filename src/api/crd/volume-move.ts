import { volumeMove } from '../names.ts';
import { movePhases } from '../volume-move.ts';
import { type CrdSpec, quantity, type Schema } from './crd.ts';

const spec = {
  description: 'What is moved, and where to. It cannot be changed: delete the move and create another one.',
  type: 'object',
  required: ['claimName'],
  'x-kubernetes-validations': [
    { rule: 'self == oldSelf', message: 'a move cannot be changed; delete it and create another one' },
  ],
  properties: {
    claimName: {
      description: 'The claim, in the namespace of the move.',
      type: 'string',
      minLength: 1,
      maxLength: 253,
    },
    targetNode: {
      description: "The node to move to. Without one, a node with room that the claim's pods may run on is chosen.",
      type: 'string',
      minLength: 1,
      maxLength: 253,
    },
    fill: {
      description:
        'Set by Moorage only. The LogicalVolume of a claim that is not bound yet, which gets a copy of its source on ' +
        'another node; nothing is moved.',
      type: 'string',
      minLength: 1,
      maxLength: 253,
    },
    stopBarePods: {
      description: 'Also stop pods that nothing would start again, because they have no owner.',
      type: 'boolean',
    },
    patient: {
      description:
        'While the move cannot begin for a reason that may pass, such as that no node has room, it waits, instead of failing.',
      type: 'boolean',
    },
    rateLimit: {
      description: 'The most bytes per second to copy; unlimited by default.',
      ...quantity,
      'x-kubernetes-validations': [
        { rule: 'quantity(string(self)).isGreaterThan(quantity("0"))', message: 'rateLimit must be above zero' },
      ],
    },
  },
} as const satisfies Schema;

const bytes = { type: 'integer', format: 'int64' } as const satisfies Schema;
const time = { type: 'string', format: 'date-time' } as const satisfies Schema;

const verdict = {
  description: 'That the target has all data: both ends have the same hashes of the last round.',
  type: 'object',
  required: ['round', 'bytes', 'sha256'],
  properties: {
    round: { description: 'The number of the last round.', type: 'integer', format: 'int32' },
    bytes: { description: 'What the last round has copied.', ...bytes },
    sha256: { description: 'Of the offsets, lengths and hashes of the last round.', type: 'string' },
  },
} as const satisfies Schema;

const source = {
  description: 'Written by the agent of the source node only.',
  type: 'object',
  properties: {
    certificate: { description: 'In PEM. Its key is only in the memory of the agent.', type: 'string' },
    endpoint: { description: 'Where the agent serves the data, as host:port.', type: 'string' },
    fenced: { description: 'Whether the volume can no longer be staged or published.', type: 'boolean' },
    readOnly: { description: 'Whether the volume is closed, and can no longer be written.', type: 'boolean' },
    released: { description: 'Whether the agent has ended its part of the move.', type: 'boolean' },
    message: { description: 'Why the agent cannot go on; it retries.', type: 'string' },
  },
} as const satisfies Schema;

const target = {
  description: 'Written by the agent of the target node only.',
  type: 'object',
  properties: {
    certificate: { description: 'In PEM. Its key is only in the memory of the agent.', type: 'string' },
    round: { description: 'The number of the current round; the first one copies everything.', type: 'integer' },
    copiedBytes: { description: 'Copied in the current round.', ...bytes },
    totalBytes: { description: 'To copy in the current round.', ...bytes },
    converged: { description: 'Whether the next round is short enough to stop the pods.', type: 'boolean' },
    verdict,
    opened: { description: 'Whether the volume can be staged and published.', type: 'boolean' },
    message: { description: 'Why the agent cannot go on; it retries.', type: 'string' },
  },
} as const satisfies Schema;

const condition = {
  type: 'object',
  required: ['type', 'status', 'reason', 'message', 'lastTransitionTime'],
  properties: {
    type: { type: 'string' },
    status: { type: 'string', enum: ['True', 'False', 'Unknown'] },
    reason: { description: 'One UpperCamelCase word.', type: 'string' },
    message: { type: 'string' },
    lastTransitionTime: time,
  },
} as const satisfies Schema;

const status = {
  description: 'How far the move is.',
  type: 'object',
  // Whatever the status is, it may stay as it is: otherwise nobody could remove the finalizers.
  'x-kubernetes-validations': [
    {
      rule:
        '(!has(oldSelf.manifest) || has(self.manifest) && self.manifest == oldSelf.manifest) && ' +
        '(!has(oldSelf.verdict) || has(self.verdict) && self.verdict == oldSelf.verdict)',
      message: 'manifest and verdict cannot be changed once they are set; the move goes on from them after a crash',
    },
  ],
  properties: {
    phase: { description: 'See docs/moving.md.', type: 'string', enum: movePhases },
    message: { description: 'What happens, what it waits for, or why it ended.', type: 'string' },
    claimUID: { description: 'The uid of the claim: another claim of the same name is not moved.', type: 'string' },
    persistentVolume: { description: 'The PersistentVolume of the claim, before and after the move.', type: 'string' },
    sourceNode: { type: 'string' },
    sourceVolume: { description: 'The LogicalVolume on the source node.', type: 'string' },
    targetNode: { type: 'string' },
    targetVolume: { description: 'The LogicalVolume on the target node.', type: 'string' },
    size: { description: 'The size of the volume.', ...quantity },
    pods: {
      description: 'The pods that were stopped.',
      type: 'array',
      items: {
        type: 'object',
        required: ['name', 'uid'],
        properties: { name: { type: 'string' }, uid: { type: 'string' } },
      },
    },
    together: {
      description: 'The other moves of volumes of the same pods: they are committed or aborted together.',
      type: 'array',
      items: { type: 'string' },
    },
    startedAt: { description: 'When copying began.', ...time },
    stoppedAt: { description: 'When the pods were told to stop.', ...time },
    openedAt: { description: 'When the volume could be used on the target node.', ...time },
    completedAt: { description: 'When the move ended.', ...time },
    manifest: { description: 'The PersistentVolume as it was before it was replaced, in JSON.', type: 'string' },
    verdict,
    conditions: { type: 'array', maxItems: 8, items: condition },
    source,
    target,
  },
} as const satisfies Schema;

/** A volume that moves to another node with its data. Users create it; the controller and two agents write its status. */
export const volumeMoveCrd = {
  group: volumeMove.group,
  scope: 'Namespaced',
  names: {
    kind: volumeMove.kind,
    listKind: `${volumeMove.kind}List`,
    plural: volumeMove.plural,
    singular: 'volumemove',
  },
  versions: [
    {
      name: volumeMove.version,
      served: true,
      storage: true,
      subresources: { status: {} },
      // An agent watches only the moves of its own node.
      selectableFields: [{ jsonPath: '.status.sourceNode' }, { jsonPath: '.status.targetNode' }],
      additionalPrinterColumns: [
        { name: 'Claim', type: 'string', jsonPath: '.spec.claimName' },
        { name: 'From', type: 'string', jsonPath: '.status.sourceNode' },
        { name: 'To', type: 'string', jsonPath: '.status.targetNode' },
        { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
        { name: 'Round', type: 'integer', jsonPath: '.status.target.round', priority: 1 },
        { name: 'Message', type: 'string', jsonPath: '.status.message', priority: 1 },
        { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
      ],
      schema: {
        openAPIV3Schema: {
          description: 'Moves the volume of a claim to another node, with its data; see docs/moving.md.',
          type: 'object',
          required: ['spec'],
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

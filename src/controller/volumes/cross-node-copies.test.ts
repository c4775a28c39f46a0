import assert from 'node:assert/strict';
import { test } from 'node:test';
import { logicalVolumes, type StoredLogicalVolume } from '../../api/logical-volume.ts';
import { type StoredVolumeMove, type VolumeMove, volumeMoves } from '../../api/volume-move.ts';
import { ApiError } from '../../kube/api-error.ts';
import { persistentVolumeClaims } from '../../kube/resource.ts';
import { never, wanted } from '../testing/in-memory-store.ts';
import { CrossNodeCopies, type WantedCopy } from './cross-node-copies.ts';

const copy: WantedCopy = { ...wanted, claim: 'shop/db', source: { kind: 'volume', id: 'v' }, sourceNode: 'b' };
const request = { metadata: { name: 'pvc-a' }, spec: { name: 'pvc-A', nodeName: 'a', size: '1Gi' } };
const meta = (name: string, uid: string) => ({ name, uid, resourceVersion: '1', creationTimestamp: '' });
const volume = (mark?: string, uid = 'lv'): StoredLogicalVolume => ({
  ...request,
  metadata: { ...meta('pvc-a', uid), ...(mark && { annotations: { 'moorage.dev/move': mark } }) },
});
const owner = (uid: string) => ({ apiVersion: 'v1', kind: 'PersistentVolumeClaim', name: 'db', uid });
const move = (change: Partial<VolumeMove> = {}, ownerUid = 'claim'): StoredVolumeMove => ({
  spec: { claimName: 'db', fill: 'pvc-a' },
  ...change,
  metadata: { ...meta('copy-pvc-a', 'old'), namespace: 'shop', ownerReferences: [owner(ownerUid)] },
});

interface World {
  /** What is read of the volume, one after the other. */
  readonly reads: readonly (StoredLogicalVolume | undefined)[];
  readonly existingMove?: StoredVolumeMove;
  readonly hasClaim?: boolean;
}

/** The copies of a cluster in which a new VolumeMove has the uid `new`; what they write is in `writes`. */
function copiesOf({ reads, existingMove, hasClaim = true }: World) {
  const left = [...reads];
  const writes: string[] = [];
  const client = {
    get: async (resource: object) => {
      if (resource === logicalVolumes) return left.shift();
      if (resource === volumeMoves) return existingMove;
      return hasClaim && resource === persistentVolumeClaims ? { metadata: { ...meta('db', 'claim') } } : undefined;
    },
    create: async (_: object, object: VolumeMove) => {
      if (existingMove) throw new ApiError('create', { code: 409, reason: 'AlreadyExists' });
      writes.push(`create ${object.metadata?.name}`);
      return { ...object, metadata: { ...object.metadata, ...meta('copy-pvc-a', 'new') } };
    },
  } as unknown as ConstructorParameters<typeof CrossNodeCopies>[0]['client'];
  const objects = {
    create: async ({ metadata }: { metadata: { annotations?: Readonly<Record<string, string>> } }) => {
      writes.push(`request with mark ${metadata.annotations?.['moorage.dev/move']}`);
      return volume(metadata.annotations?.['moorage.dev/move']);
    },
    remove: async ({ metadata }: StoredLogicalVolume) => void writes.push(`remove ${metadata.uid}`),
    until: async () => volume(),
  };
  const copies = new CrossNodeCopies({ client, objects, moves: { get: () => undefined } });
  return { writes, create: () => copies.create(copy, request, () => undefined, never) };
}

for (const [what, world, expected] of [
  ['a new copy has a VolumeMove', { reads: [] }, ['create copy-pvc-a', 'request with mark new']],
  [
    'a retried call finds both',
    { reads: [volume('old'), volume('old')], existingMove: move() },
    ['request with mark old'],
  ],
  ['a volume that is filled needs none', { reads: [volume()] }, ['request with mark undefined']],
  [
    'a volume that was filled meanwhile is kept',
    { reads: [volume('old'), volume()] },
    ['create copy-pvc-a', 'request with mark undefined'],
  ],
  [
    'a volume whose VolumeMove was removed by force is created again',
    { reads: [volume('lost'), volume('lost')] },
    ['create copy-pvc-a', 'remove lv', 'request with mark new'],
  ],
] as const satisfies readonly (readonly [string, World, readonly string[]])[]) {
  test(what, async () => {
    const { create, writes } = copiesOf(world);
    assert.equal((await create()).metadata.uid, 'lv');
    assert.deepEqual(writes, expected);
  });
}

test('nothing is requested without the claim, or while an earlier copy ends', async () => {
  for (const [world, code] of [
    [{ reads: [], hasClaim: false }, 'NotFound'],
    [{ reads: [], existingMove: move({ status: { phase: 'Aborting', message: 'the source is gone' } }) }, 'Aborted'],
    [{ reads: [], existingMove: move({}, 'another claim') }, 'Aborted'],
    [{ reads: [], existingMove: move({ spec: { claimName: 'db', fill: 'other' } }) }, 'Aborted'],
  ] as const satisfies readonly (readonly [World, string])[]) {
    const { create, writes } = copiesOf(world);
    await assert.rejects(create(), { code });
    assert.deepEqual(writes, []);
  }
});

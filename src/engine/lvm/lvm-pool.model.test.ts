import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { unfinishedTag } from '../names-and-tags.ts';
import { extent, openThick, openThin, signal } from './testing/simulated-pools.ts';

const id = fc.constantFrom('a', 'b', 'c');
const size = fc.bigInt({ min: 1n, max: 12n * extent });
const failure = fc.constantFrom('before' as const, 'after' as const, undefined, undefined, undefined);
const action = fc.oneof(
  fc.record({ kind: fc.constant('create' as const), id, size, failure }),
  fc.record({ kind: fc.constant('grow' as const), id, size, failure }),
  fc.record({ kind: fc.constant('remove' as const), id, failure }),
  fc.record({ kind: fc.constant('tag' as const), id, failure }),
);

test('memory matches LVM and the spare is kept, whatever is requested and whatever fails', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(action, { maxLength: 25 }), async (actions) => {
      const { pool, lvm } = await openThick({ extents: 20, spareBytes: 3n * extent });
      for (const step of actions) {
        lvm.fails = (subcommand) => (subcommand === 'fullreport' ? undefined : step.failure);
        const work =
          step.kind === 'create'
            ? pool.create({ id: step.id, sizeBytes: step.size, tags: [] }, signal)
            : step.kind === 'grow'
              ? pool.grow(step.id, step.size, signal)
              : step.kind === 'tag'
                ? pool.addTags(step.id, ['tag'], signal)
                : pool.remove(step.id, signal);
        await work.catch(() => undefined); // refused or failed: memory and LVM must agree either way

        assert.ok(lvm.freeExtents >= 3, 'the spare was allocated');
        assert.equal(pool.capacity().freeBytes, BigInt(lvm.freeExtents - 3) * extent);
        assert.deepEqual(
          pool.list().map(({ id, sizeBytes, tags }) => [id, sizeBytes, tags]),
          [...lvm.volumes].map(([id, { extents, tags }]) => [id, BigInt(extents) * extent, tags]),
        );
      }
    }),
    { numRuns: 300 },
  );
});

const thinAction = fc.oneof(
  fc.record({ kind: fc.constant('create' as const), id, size, failure }),
  fc.record({ kind: fc.constant('grow' as const), id, size, failure }),
  fc.record({ kind: fc.constant('snapshot' as const), id, source: id, size, failure }),
  fc.record({ kind: fc.constant('remove' as const), id, failure }),
  fc.record({ kind: fc.constant('outside' as const), id }),
);

test('memory of a thin pool matches LVM, with snapshots and with changes by others', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(thinAction, { maxLength: 25 }), async (actions) => {
      const { pool, lvm } = await openThin({ extents: 12 });
      for (const step of actions) {
        if (step.kind === 'outside') {
          if (lvm.volumes.delete(step.id)) lvm.sequenceNumber += 2;
          else lvm.addForeign(step.id, 3);
          continue;
        }
        const failure = step.failure;
        lvm.fails = (subcommand) => (['fullreport', 'lvs'].includes(subcommand) ? undefined : failure);
        const wanted = { id: step.id, tags: [], access: 'rw' as const };
        const work =
          step.kind === 'create'
            ? pool.create({ ...wanted, sizeBytes: step.size }, signal)
            : step.kind === 'grow'
              ? pool.grow(step.id, step.size, signal)
              : step.kind === 'snapshot'
                ? pool.snapshot(step.source, { ...wanted, sizeBytes: step.size }, signal)
                : pool.remove(step.id, signal);
        await work.catch(() => undefined);

        const thin = [...lvm.volumes].filter(([, volume]) => volume.pool !== undefined);
        const promised = thin.reduce((sum, [, { extents }]) => sum + BigInt(extents), 0n);
        assert.ok(promised <= 30n, 'more was allocated than the ratio allows');
        assert.equal(pool.capacity().freeBytes, (30n - promised) * extent);
        const finished = thin.filter(([, { tags }]) => !tags.includes(unfinishedTag));
        assert.deepEqual(
          pool.list().map(({ id, sizeBytes }) => [id, sizeBytes]),
          finished.map(([id, { extents }]) => [id, BigInt(extents) * extent]),
        );
      }
    }),
    { numRuns: 300 },
  );
});

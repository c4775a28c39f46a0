import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ClaimOnDrain } from './drained-objects.ts';
import { isWithdrawn } from './ended-drains.ts';

const asked: ClaimOnDrain = {
  uid: 'claim-1',
  volumeName: 'pvc-1',
  policy: 'delegate',
  tombstone: 'graceful',
  isDropping: false,
  drainedFrom: 'a',
  hasLeft: false,
  leaveState: undefined,
};

test('a request to leave ends with its drain, but not after the answer', () => {
  const rows: readonly (readonly [Partial<ClaimOnDrain>, boolean | undefined, boolean])[] = [
    [{}, true, false],
    [{}, false, true],
    [{}, undefined, false], // the Node is gone
    [{ hasLeft: true }, false, false],
    [{ policy: 'wait' }, true, true],
    [{ policy: 'wait', hasLeft: true }, true, false],
    [{ policy: 'archive' }, true, true], // an unknown policy asks no operator
    [{ policy: undefined }, true, false], // that of its class
    [{ drainedFrom: undefined }, false, false], // the tombstone of a person
    [{ tombstone: 'force' }, false, false],
    [{ tombstone: undefined }, false, true], // refused meanwhile: what is left of it is removed
    [{ tombstone: undefined }, true, false],
  ];
  for (const [change, isDraining, expected] of rows) {
    assert.equal(isWithdrawn({ ...asked, ...change }, isDraining), expected, JSON.stringify([change, isDraining]));
  }
});

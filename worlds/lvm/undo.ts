import type { TestContext } from 'node:test';

const undoing = new WeakMap<TestContext, AsyncDisposableStack>();

/**
 * Undoes something after the test, in reverse order: a volume group is removed before the faulty disk below it.
 * node:test itself would run such hooks in the order of their registration.
 */
export function undoAfter(t: TestContext, undo: () => Promise<unknown>): void {
  let stack = undoing.get(t);
  if (!stack) {
    const made = new AsyncDisposableStack();
    undoing.set(t, made);
    t.after(() => made.disposeAsync());
    stack = made;
  }
  stack.defer(async () => void (await undo()));
}

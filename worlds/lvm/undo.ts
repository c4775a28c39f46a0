import type { TestContext } from 'node:test';

const undoing = new WeakMap<TestContext, AsyncDisposableStack>();

/**
 * Has something undone after the test. What was done last is undone first: a volume group goes before the faulty disk
 * it stands on, while node:test itself would run such hooks in the order they were made.
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

import { afterEach, type TestContext, test } from 'node:test';

/** Calls `failed` with the name of each test that fails in the calling file or suite. */
export function onFailure(failed: (name: string) => void): void {
  afterEach((t) => {
    if ('passed' in t && !t.passed) failed(t.name);
  });
}

/**
 * Returns `test` for the tests of a suite that build on the ones before. After a failure they are skipped, so that it is
 * reported once. Call it inside the suite.
 */
export function story(): (name: string, step: (t: TestContext) => Promise<void>) => void {
  let failure: string | undefined;
  onFailure((name) => {
    failure ??= name;
  });
  return (name, step) => {
    void test(name, async (t) => {
      if (failure === undefined) await step(t);
      else t.skip(`after the failure of: ${failure}`);
    });
  };
}

import type { TestContext } from 'node:test';
import { run } from '../../src/base/exec.ts';
import { mappingName } from '../../src/engine/luks-device.ts';
import type { Volume } from '../../src/engine/pool.ts';
import type { KeyDerivation } from '../../src/filesystem/cryptsetup.ts';
import { command } from '../../worlds/lvm/inside.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';

/** The lowest cost that cryptsetup allows, to keep tests fast. */
export const cheapDerivation: KeyDerivation = { memoryBytes: 32 * 1024, iterations: 4, threads: 1 };

/** Encrypts a volume and opens it, until the end of the test. */
export async function openEncrypted(t: TestContext, { id, devicePath }: Volume): Promise<void> {
  const cheap = ['--pbkdf', 'pbkdf2', '--pbkdf-force-iterations', '1000'];
  for (const words of [
    ['luksFormat', '--batch-mode', ...cheap, devicePath, '-'],
    ['open', '--key-file=-', devicePath, mappingName(id)],
  ]) {
    await run(['cryptsetup', ...words], { timeoutMs: 60_000, input: 'key' });
  }
  undoAfter(t, () => command('cryptsetup', 'close', mappingName(id)));
}

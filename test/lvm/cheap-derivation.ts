import type { KeyDerivation } from '../../src/filesystem/cryptsetup.ts';

/** The lowest cost that cryptsetup allows, to keep tests fast. */
export const cheapDerivation: KeyDerivation = { memoryBytes: 32 * 1024, iterations: 4, threads: 1 };

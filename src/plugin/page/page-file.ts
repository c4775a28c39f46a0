import { readFile } from 'node:fs/promises';
import { MoorageError } from '../../base/errors.ts';

class PageNotBuilt extends MoorageError {
  readonly code = 'FailedPrecondition';
}

/** The page: one HTML file with everything in it. In the bundle, `scripts/build.ts` puts its text in place of this module. */
export async function readPage(): Promise<string> {
  try {
    return await readFile(new URL('../../../dist/page.html', import.meta.url), 'utf8');
  } catch (cause) {
    throw new PageNotBuilt('the page is not built; run npm run build', { cause });
  }
}

import { join } from 'node:path';
import { cacheDir } from '../worlds/host/cache.ts';

/** The state of the one cluster that `npm run up` starts and `npm run down` ends. */
export const clusterDir = join(cacheDir, 'up');

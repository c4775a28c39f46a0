import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { Requeue } from '../../base/keyed-queue.ts';
import type { Log } from '../../base/log.ts';
import { parseMountInfo } from '../../base/mountinfo.ts';
import type { Work } from '../../base/work.ts';
import type { KubeClient } from '../../kube/client.ts';
import { persistentVolumes } from '../../kube/resource.ts';
import { mountRoot } from './volume-path.ts';

interface Collaborators {
  readonly client: Pick<KubeClient, 'list'>;
  readonly mountBase: string;
  readonly log: Log;
}

/** Logs, once at the start, the mounts of volumes that no PersistentVolume names. Nothing is changed. */
export function sanityCheck({ client, mountBase, log }: Collaborators): Work {
  const reconcile = async (_: string, signal: AbortSignal): Promise<Requeue> => {
    const { items } = await client.list(persistentVolumes, { project: ({ metadata }) => metadata.name, signal });
    const mountInfo = await readFile('/proc/self/mountinfo', 'utf8');
    for (const target of staleMounts(mountInfo, [mountBase, mountRoot], new Set(items))) {
      log.warn({ target }, `${target} is mounted, and no PersistentVolume names it; unmount it if it is not used`);
    }
    return Requeue.never;
  };
  const watch = (queue: { add(key: string): void }) => {
    queue.add('mounts');
    return [];
  };
  return { name: 'static-volume-mounts', watch, reconcile, concurrency: 1 };
}

export function staleMounts(
  mountInfo: string,
  directories: readonly string[],
  names: ReadonlySet<string>,
): readonly string[] {
  const isVolume = (target: string) => directories.some((directory) => target === `${directory}/${basename(target)}`);
  return parseMountInfo(mountInfo)
    .map(({ target }) => target)
    .filter((target) => isVolume(target) && !names.has(basename(target)));
}

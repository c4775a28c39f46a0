import { type Entry, nodeEntries, volumeEntries } from './objects.ts';

export const nodeCount = 1_000;
export const volumeCount = 20_000;

/** As many nodes and volumes as the page must show without stutter. */
export function* largeCluster(nowMs: number): Generator<Entry> {
  for (let i = 0; i < nodeCount; i++) {
    const used = 100 + ((i * 37) % 850);
    const pool = { type: 'thick', health: 'Healthy', size: '1000Gi', spare: '10Gi' } as const;
    yield* nodeEntries(`worker-${i}`, [
      { ...pool, deviceClass: 'ssd', used: `${used}Gi`, free: `${990 - used}Gi`, volumes: 15 },
      {
        ...{ deviceClass: 'thin', type: 'thin', health: 'Healthy', size: '1000Gi', used: '300Gi', free: '700Gi' },
        ...{ volumes: 5, thin: { dataPercent: 30, metadataPercent: (i * 13) % 90 } },
      },
    ]);
  }
  for (let i = 0; i < volumeCount; i++) yield* largeClusterVolume(i, nowMs);
}

export function largeClusterVolume(i: number, nowMs: number, size = `${(i % 40) + 1}Gi`): readonly Entry[] {
  return volumeEntries({
    ...{ namespace: `team-${i % 60}`, claim: `data-db-${i}`, pod: `db-${i}`, node: `worker-${i % nodeCount}` },
    ...{ deviceClass: i % 4 === 0 ? 'thin' : 'ssd', size, storageClass: 'fast' },
    createdAt: new Date(nowMs - i * 60_000).toISOString(),
  });
}

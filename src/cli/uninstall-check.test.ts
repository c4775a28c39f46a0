import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StoredLogicalVolume } from '../api/logical-volume.ts';
import { ApiError } from '../kube/api-error.ts';
import type { PersistentVolume, Stored } from '../kube/resource.ts';
import { checkUninstall, VolumesLeft } from './uninstall-check.ts';

function volume(name: string, claim?: string): StoredLogicalVolume {
  const annotations: Record<string, string> = claim ? { 'moorage.dev/claim': claim } : {};
  return {
    metadata: { name, uid: name, resourceVersion: '1', creationTimestamp: '2026-11-01T00:00:00Z', annotations },
    spec: { name, nodeName: 'node-a', size: '1Gi' },
  };
}

/** A client of a cluster with these objects. */
function cluster(
  volumes: readonly StoredLogicalVolume[] | Error,
  persistent: readonly Stored<PersistentVolume>[] = [],
) {
  const list = async (resource: { kind: string }, { project }: { project: (object: unknown) => unknown }) => {
    const objects = resource.kind === 'LogicalVolume' ? volumes : persistent;
    if (objects instanceof Error) throw objects;
    return { items: objects.map(project), resourceVersion: '1' };
  };
  return { list } as unknown as Parameters<typeof checkUninstall>[0];
}

const having = (...items: StoredLogicalVolume[]) => cluster(items);

test('the check passes if there are no volumes', async () => {
  await checkUninstall(having());
});

test('a remaining volume is named with its claim and a remedy', async () => {
  await assert.rejects(checkUninstall(having(volume('pvc-1', 'default/data'), volume('pvc-2'))), (error) => {
    assert.ok(error instanceof VolumesLeft);
    assert.match(error.message, /pvc-1 on node-a \(claim default\/data\), pvc-2 on node-a;/);
    assert.match(error.message, /keep them on their disks; to stay installed: helm rollback$/);
    return true;
  });
});

test('only a few of many volumes are named', async () => {
  const many = Array.from({ length: 12 }, (_, index) => volume(`pvc-${index}`));
  await assert.rejects(checkUninstall(having(...many)), /pvc-4 on node-a and 7 more;/);
});

test('a static volume counts too, also in a cluster that has no LogicalVolumes', async () => {
  const noSuchKind = new ApiError('list', { code: 404, reason: 'NotFound' });
  const metadata = { name: 'search-1', uid: 'u', resourceVersion: '1', creationTimestamp: '' };
  const annotations = { 'local-pv.k8s.portavita.net/node': 'node-a' };
  const claimRef = { namespace: 'default', name: 'search' };
  const ours = { metadata: { ...metadata, annotations, finalizers: ['moorage.dev/local-pv'] }, spec: { claimRef } };
  await checkUninstall(cluster(noSuchKind, [{ metadata, spec: { claimRef } }]));
  await assert.rejects(
    checkUninstall(cluster(noSuchKind, [ours])),
    /still has volumes: search-1 on node-a \(claim default\/search\); /,
  );
});

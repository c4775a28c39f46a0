import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StoredLogicalVolume } from '../api/logical-volume.ts';
import { checkUninstall, VolumesLeft } from './uninstall-check.ts';

function volume(name: string, claim?: string): StoredLogicalVolume {
  const annotations: Record<string, string> = claim ? { 'moorage.dev/claim': claim } : {};
  return {
    metadata: { name, uid: name, resourceVersion: '1', creationTimestamp: '2026-11-01T00:00:00Z', annotations },
    spec: { name, nodeName: 'node-a', size: '1Gi' },
  };
}

const having = (...items: StoredLogicalVolume[]) => ({ list: async () => ({ items }) });

test('the check passes if there are no volumes', async () => {
  await checkUninstall(having());
});

test('a remaining volume is named with its claim and a remedy', async () => {
  await assert.rejects(checkUninstall(having(volume('pvc-1', 'default/data'), volume('pvc-2'))), (error) => {
    assert.ok(error instanceof VolumesLeft);
    assert.match(error.message, /pvc-1 on node-a \(claim default\/data\), pvc-2 on node-a;/);
    assert.match(error.message, /--no-hooks; to stay installed: helm rollback$/);
    return true;
  });
});

test('only a few of many volumes are named', async () => {
  const many = Array.from({ length: 12 }, (_, index) => volume(`pvc-${index}`));
  await assert.rejects(checkUninstall(having(...many)), /pvc-4 on node-a and 7 more;/);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { capacity, node, storageClass } from '../../explain/testing/objects.ts';
import { csiNode, driver } from '../../explain/testing/situations.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { KubeObject, Resource } from '../../kube/resource.ts';
import { objectsIn } from '../manifests.ts';
import { beforeApplying } from './before-applying.ts';
import { Reader } from './read.ts';

/** What a file would do in a cluster with a node and the class fast. */
async function checked(text: string) {
  const objects: Readonly<Record<string, readonly KubeObject[]>> = {
    storageclasses: [storageClass(), storageClass('old', { parameters: { zone: 'west' } })],
    nodes: [node('a', 50n)],
    csinodes: [csiNode('a')],
    csidrivers: [driver],
    csistoragecapacities: [capacity('a', '50Gi')],
  };
  const client = {
    get: async () => undefined,
    list: async ({ plural }: Resource<KubeObject>) => ({ items: objects[plural] ?? [], resourceVersion: '1' }),
  };
  const reader = new Reader(client as unknown as KubeClient, new AbortController().signal);
  return beforeApplying(objectsIn(text, 'a.yaml'), 'prod', reader);
}

const claim = (storageClassName: string) => `---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: { name: data }
spec: { accessModes: [ReadWriteOnce], storageClassName: ${storageClassName}, resources: { requests: { storage: 1Gi } } }
`;
const pod = (rest = '') => `---
apiVersion: v1
kind: Pod
metadata: { name: db-0 }
spec:
  containers: [{ name: main, image: db }]
  volumes: [{ name: data, persistentVolumeClaim: { claimName: data } }]
${rest}
`;

test('a pod with nodeName would wait for the volume of a new claim', async () => {
  const [, found] = await checked(`${claim('fast')}${pod('  nodeName: a')}`);
  assert.equal(found?.code, 'SchedulerBypassed');
  assert.equal(
    found.sentence,
    'pod db-0 would wait: its nodeName a bypasses the scheduler, so no volume would be created for claim data; replace nodeName in the pod with nodeSelector kubernetes.io/hostname: a',
  );
  assert.deepEqual(found.remedy, []);
  const [, selecting] = await checked(`${claim('fast')}${pod('  nodeSelector: { kubernetes.io/hostname: a }')}`);
  assert.equal(selecting?.sentence, 'pod db-0 would not wait: no obstacle seen on a');
});

test('a class of the file is corrected in the file, and one of the cluster is replaced', async () => {
  const own = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: { name: zonal }
provisioner: topolvm.io
parameters: { zone: "a,b" }
`;
  for (const { code, remedy } of await checked(`${own}${claim('zonal')}${pod()}`)) {
    assert.equal(code, 'ZoneParameter');
    assert.deepEqual(remedy, ['edit the file: in StorageClass zonal write no parameter zone']);
  }
  const [stored] = await checked(claim('old'));
  assert.match(stored?.remedy[0] ?? '', /^kubectl get storageclass old -o yaml > class.yaml /);
});

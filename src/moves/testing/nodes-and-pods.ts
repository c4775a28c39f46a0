import type { Node, Pod, Stored } from '../../kube/resource.ts';

const gibi = 1024 ** 3;

function meta(name: string, uid = `uid-${name}`) {
  return { name, uid, resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' };
}

export function nodeOfTest(
  name: string,
  change: { metadata?: object; spec?: object; status?: object } = {},
): Stored<Node> {
  const annotations = { 'capacity.topolvm.io/ssd': String(10 * gibi) };
  return {
    metadata: { ...meta(name), annotations, ...change.metadata },
    ...(change.spec && { spec: change.spec }),
    status: { conditions: [{ type: 'Ready', status: 'True' }], ...change.status },
  };
}

export function podOfTest(
  name: string,
  change: { metadata?: object; spec?: object; status?: object } = {},
): Stored<Pod> {
  const ownerReferences = [{ apiVersion: 'apps/v1', kind: 'StatefulSet', name: 'db', uid: 's', controller: true }];
  return {
    metadata: { ...meta(name), namespace: 'prod', ownerReferences, ...change.metadata },
    spec: {
      nodeName: 'a',
      containers: [],
      volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data-db-0' } }],
      ...change.spec,
    },
    status: { phase: 'Running', ...change.status },
  };
}

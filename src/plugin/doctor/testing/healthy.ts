import { logicalVolumeCrd } from '../../../api/crd/logical-volume.ts';
import { nodeStorageCrd } from '../../../api/crd/node-storage.ts';
import { volumeMoveCrd } from '../../../api/crd/volume-move.ts';
import { driverName, nodeFinalizer, topologyKey, webhookConfigurationName } from '../../../api/names.ts';
import type { NodeStorageStatus } from '../../../api/node-storage.ts';
import { selfSigned } from '../../../http/self-signed.ts';
import type { Lease, Node, Pod, Stored } from '../../../kube/resource.ts';
import { noVolumes } from '../../testing/facts-of-test.ts';
import type { Observed } from '../observed.ts';

export const nowMs = Date.parse('2026-01-07T12:00:00Z');
export const namespace = 'moorage-system';
const longAgo = '2026-01-01T00:00:00Z';

export function at(msAgo: number): string {
  return new Date(nowMs - msAgo).toISOString();
}

export function meta(name: string, more: object = {}) {
  return { name, uid: `uid-${name}`, resourceVersion: '1', creationTimestamp: longAgo, ...more };
}

export function node(name: string): Stored<Node> {
  const annotations = { 'capacity.topolvm.io/ssd': '1073741824', 'capacity.topolvm.io/00default': '1073741824' };
  return {
    metadata: meta(name, { labels: { [topologyKey]: name }, finalizers: [nodeFinalizer], annotations }),
  };
}

export function report(name: string, changes: Partial<NodeStorageStatus> = {}): Observed['reports'][number] {
  const nothing = { total: 0, volumes: [] };
  return {
    metadata: meta(name),
    status: {
      nodeUID: `uid-${name}`,
      updatedAt: longAgo,
      pools: [ssd],
      erasures: nothing,
      orphans: nothing,
      versions: { moorage: '1.2.3', kernel: '6.1.0', lvm: '2.03.16(2)', e2fsprogs: '1.47.0' },
      features: { ioLimits: true, segmentTypes: ['linear', 'thin-pool'] },
      swap: [],
      ...changes,
    },
  };
}

export const ssd = {
  deviceClass: 'ssd',
  default: true,
  type: 'thick',
  volumeGroup: 'vg0',
  health: 'Healthy',
  size: '10Gi',
  used: '9Gi',
  free: '1Gi',
} as const;

export function pod(
  name: string,
  component: string,
  changes: { readonly args?: string[]; readonly isReady?: boolean } = {},
) {
  const { args = [], isReady = true } = changes;
  const containers = component === 'controller' ? ['controller', 'csi-provisioner', 'csi-resizer'] : [component];
  const images: Readonly<Record<string, string>> = {
    'csi-provisioner': 'csi-provisioner:v5.3.0',
    'csi-resizer': 'csi-resizer:v1.14.0',
  };
  const found: Stored<Pod> = {
    metadata: meta(name, {
      namespace,
      labels: {
        'app.kubernetes.io/name': 'moorage',
        'app.kubernetes.io/component': component,
        'app.kubernetes.io/version': '1.2.3',
      },
    }),
    spec: {
      nodeName: name.replace(/^.*-on-/, ''),
      containers: containers.map((each) => ({ name: each, image: images[each] ?? 'moorage:1.2.3', args })),
    },
    status: {
      phase: 'Running',
      conditions: [{ type: 'Ready', status: isReady ? 'True' : 'False' }],
      containerStatuses: containers.map((each) => ({
        ...{ name: each, image: '', imageID: '', restartCount: 0, ready: isReady },
        state: { running: {} },
      })),
    },
  };
  return found;
}

interface Renewal {
  readonly renewedMsAgo?: number;
  readonly storedMsAgo?: number;
}

export function lease(name: string, { renewedMsAgo = 3000, storedMsAgo = renewedMsAgo }: Renewal = {}): Stored<Lease> {
  const managedFields = [{ time: at(storedMsAgo), fieldsV1: { 'f:spec': { 'f:renewTime': {} } } }];
  return {
    metadata: meta(name, { managedFields }),
    spec: { holderIdentity: 'controller-1_x', leaseDurationSeconds: 15, renewTime: at(renewedMsAgo) },
  };
}

export const controllerArgs = ['controller', `--webhook-service=moorage-controller.${namespace}.svc`];

/** The caBundle of a webhook whose controllers created their certificates. */
export async function bundle(commonNames: readonly string[], validForDays = 7): Promise<string> {
  const day = 24 * 60 * 60_000;
  const issued = commonNames.map((commonName) =>
    selfSigned({ commonName, dnsName: 'x.svc', nowMs: nowMs - day, validForMs: (validForDays + 1) * day }),
  );
  return Buffer.from((await Promise.all(issued)).map(({ cert }) => cert).join('')).toString('base64');
}

export function webhookConfiguration(caBundle: string): Observed['webhooks'][number] {
  const service = { name: 'moorage-controller', namespace };
  return {
    metadata: meta(webhookConfigurationName),
    webhooks: [
      {
        name: 'pod-hook.topolvm.io',
        admissionReviewVersions: ['v1'],
        sideEffects: 'None',
        clientConfig: { service, caBundle },
      },
    ],
  };
}

/** Two nodes, one controller, one class: nothing is wrong. */
export async function healthy(): Promise<Observed> {
  const crds = [logicalVolumeCrd, nodeStorageCrd, volumeMoveCrd].map((spec) => ({
    metadata: meta(`${spec.names.plural}.${spec.group}`),
    spec,
    status: { conditions: [{ type: 'Established', status: 'True' }] },
  }));
  const drivers = [{ name: driverName, nodeID: '', topologyKeys: [topologyKey] }];
  return {
    nodes: ['a', 'b'].map(node),
    reports: ['a', 'b'].map((name) => report(name)),
    pods: [
      pod('agent-on-a', 'node'),
      pod('agent-on-b', 'node'),
      pod('controller-1', 'controller', { args: controllerArgs }),
    ],
    topolvmPods: [],
    daemonSets: [
      {
        metadata: meta('moorage-node', { namespace, labels: { 'app.kubernetes.io/component': 'node' } }),
        status: { ...{ desiredNumberScheduled: 2, currentNumberScheduled: 2 }, numberMisscheduled: 0, numberReady: 2 },
      },
    ],
    warnings: [],
    leases: ['topolvm', 'topolvm-io', 'external-resizer-topolvm-io'].map((name) => lease(name)),
    nodeLeases: ['a', 'b'].map((name) => lease(name)),
    csiDrivers: [{ metadata: meta(driverName), spec: { storageCapacity: true } }],
    csiNodes: ['a', 'b'].map((name) => ({ metadata: meta(name), spec: { drivers } })),
    capacities: ['a', 'b'].map((name) => ({
      metadata: meta(`moorage-${name}`, { namespace }),
      nodeTopology: { matchLabels: { [topologyKey]: name } },
      storageClassName: 'moorage',
      capacity: '1Gi',
    })),
    storageClasses: [{ metadata: meta('moorage'), provisioner: driverName, volumeBindingMode: 'WaitForFirstConsumer' }],
    attributesClasses: [],
    crds: crds as unknown as Observed['crds'],
    webhooks: [webhookConfiguration(await bundle(['controller-1']))],
    endpointSlices: [
      {
        metadata: meta('moorage-controller-x', {
          namespace,
          labels: { 'kubernetes.io/service-name': 'moorage-controller' },
        }),
        addressType: 'IPv4',
        endpoints: [{ addresses: ['10.0.0.1'], conditions: { ready: true } }],
      },
    ],
    facts: noVolumes,
    nowMs,
    version: '1.2.3',
  };
}

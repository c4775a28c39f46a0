import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { V1Affinity, V1Toleration } from '@kubernetes/client-node';
import { parse } from 'yaml';
import manifest from '../../package.json' with { type: 'json' };
import { runCaptured } from '../../src/base/testing/run-captured.ts';
import { moorage } from '../../src/commands.ts';
import { parseStorageConfig } from '../../src/engine/config/device-classes-yaml.ts';
import { parseSchedulerConfig } from '../../src/scheduler/scheduler-config.ts';
import { formatRight, rightsOf } from '../cluster/rights.ts';
import { chartDir, find, namespace, objectsIn, type Rendered, render, textOf, type Value } from './chart.ts';

interface Container {
  readonly name: string;
  readonly image: string;
  readonly args?: readonly string[];
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly volumeMounts?: readonly {
    readonly name: string;
    readonly mountPath: string;
    readonly mountPropagation?: string;
  }[];
}

interface PodSpec {
  readonly hostPID?: boolean;
  readonly hostIPC?: boolean;
  readonly hostNetwork?: boolean;
  readonly containers: readonly Container[];
  readonly affinity?: V1Affinity;
  readonly tolerations?: readonly V1Toleration[];
}

function podOf(object: Rendered): PodSpec {
  return (object['spec'] as { template: { spec: PodSpec } }).template.spec;
}

const everything = await render(
  'snapshot.enabled=true',
  'scheduler.enabled=true',
  'webhook.podMutatingWebhook.enabled=true',
  'webhook.certManager.enabled=true',
  'prometheus.podMonitor.enabled=true',
  'prometheus.rules.enabled=true',
  'grafana.dashboard.enabled=true',
);

test('the chart has the same version as the program', async () => {
  const chart = parse(await readFile(join(chartDir, 'Chart.yaml'), 'utf8')) as { version: string; appVersion: string };
  assert.deepEqual([chart.version, chart.appVersion], [manifest.version, manifest.version]);
});

test('each of our containers is started with a command and flags that exist', async () => {
  const pods = everything.filter(({ kind }) => ['Deployment', 'DaemonSet', 'Job'].includes(kind)).map(podOf);
  const ours = pods.flatMap(({ containers }) => containers).filter(({ image }) => image.startsWith('moorage.dev/'));
  assert.equal(ours.length, 4);
  const started: string[] = [];
  const commands = Object.entries(moorage.commands).map(([name, command]) => {
    return [name, { ...command, run: async () => void started.push(name) }] as const;
  });
  for (const { args = [] } of ours) {
    await runCaptured({ ...moorage, commands: Object.fromEntries(commands) }, args, { env: { NODE_NAME: 'node-a' } });
  }
  assert.deepEqual(
    started,
    ours.map(({ args }) => args?.[0]),
  );
});

test('the programs accept the configuration that the chart renders', async () => {
  const configured = await render('scheduler.enabled=true', 'lvmd.lvmCommandPrefix={/sbin/lvm}');
  const text = (name: string, file: string) =>
    (find(configured, 'ConfigMap', name)['data'] as Record<string, string>)[file] ?? assert.fail(file);
  const { deviceClasses } = parseStorageConfig(text('moorage-lvmd-0', 'lvmd.yaml'));
  assert.equal(deviceClasses[0]?.name, 'ssd');
  assert.equal(parseSchedulerConfig(text('moorage-scheduler', 'scheduler.yaml')).listen, ':8000');
});

test('only the agent has privileges on its node, and no container can write to its image', () => {
  for (const object of everything.filter(({ kind }) => ['Deployment', 'DaemonSet', 'Job'].includes(kind))) {
    const pod = podOf(object);
    assert.equal(pod.hostNetwork, undefined);
    for (const { name, securityContext } of pod.containers) {
      assert.equal(securityContext['readOnlyRootFilesystem'], true, name);
      assert.equal(securityContext['privileged'] === true, object.kind === 'DaemonSet', name);
    }
  }
});

test("the webhook's key is mounted only into the controller's container", () => {
  const { containers } = podOf(find(everything, 'Deployment', 'moorage-controller'));
  const holders = containers.filter(({ volumeMounts }) => volumeMounts?.some(({ name }) => name === 'certs'));
  assert.deepEqual(
    holders.map(({ name }) => name),
    ['controller'],
  );
});

test('the values limit which pods call the webhook, and pods that the webhook needs never do', async () => {
  const on = 'webhook.podMutatingWebhook.enabled=true';
  const selectors = async (...values: readonly Value[]) => {
    const { webhooks } = find(await render(on, ...values), 'MutatingWebhookConfiguration', 'moorage') as unknown as {
      webhooks: [
        { namespaceSelector: { matchExpressions: { key: string; values: string[] }[] }; objectSelector?: object },
      ];
    };
    const { namespaceSelector, objectSelector } = webhooks[0];
    const byName = namespaceSelector.matchExpressions.find(({ key }) => key === 'kubernetes.io/metadata.name');
    return { ignored: byName?.values, objectSelector };
  };
  assert.deepEqual(await selectors(), {
    ignored: ['kube-system', 'topolvm-system', 'moorage-system'],
    objectSelector: undefined,
  });
  const limited: readonly Value[] = [
    'webhook.podMutatingWebhook.ignoreNamespaces={ci}',
    'webhook.podMutatingWebhook.objectSelector.storage=local',
  ];
  assert.deepEqual(await selectors(...limited), {
    ignored: ['ci', 'moorage-system'],
    objectSelector: { matchLabels: { storage: 'local' } },
  });
});

test('only secure metrics turn on TLS for probes and Prometheus, and the right to review tokens', async () => {
  const rights = (objects: readonly Rendered[], name: string) =>
    (find(objects, 'ClusterRole', name)['rules'] as { resources: string[] }[])
      .flatMap(({ resources }) => resources)
      .filter((resource) => resource.endsWith('reviews'));
  const schemes = (container: Container | undefined) => {
    const probes = container as unknown as Record<string, { httpGet: { scheme: string } }>;
    return ['startupProbe', 'livenessProbe', 'readinessProbe'].map((probe) => probes[probe]?.httpGet.scheme);
  };
  const secure = await render(
    'metrics.secure=true',
    'prometheus.podMonitor.enabled=true',
    'prometheus.podMonitor.authorization.credentials.name=prometheus-token',
    'prometheus.podMonitor.authorization.credentials.key=token',
  );
  const plain = await render('prometheus.podMonitor.enabled=true');
  for (const [kind, name] of [
    ['Deployment', 'moorage-controller'],
    ['DaemonSet', 'moorage-node'],
  ] as const) {
    const [ours] = podOf(find(secure, kind, name)).containers;
    assert.ok(ours?.args?.includes('--secure-metrics-server'));
    assert.deepEqual(schemes(ours), ['HTTPS', 'HTTPS', 'HTTPS']);
    assert.deepEqual(rights(secure, name), ['tokenreviews', 'subjectaccessreviews']);
    const [before] = podOf(find(plain, kind, name)).containers;
    assert.ok(!before?.args?.includes('--secure-metrics-server'));
    assert.deepEqual(schemes(before), ['HTTP', 'HTTP', 'HTTP']);
    assert.deepEqual(rights(plain, name), []);
  }
  const endpoint = (objects: readonly Rendered[]) =>
    (find(objects, 'PodMonitor', 'moorage')['spec'] as { podMetricsEndpoints: object[] }).podMetricsEndpoints[0];
  assert.deepEqual(endpoint(plain), { port: 'metrics', interval: '30s' });
  assert.deepEqual(endpoint(secure), {
    port: 'metrics',
    interval: '30s',
    scheme: 'https',
    tlsConfig: { insecureSkipVerify: true },
    authorization: { credentials: { name: 'prometheus-token', key: 'token' } },
  });
});

test("the agent shares the node's PID namespace only with the node's LVM, and its IPC namespace only with the image's LVM", async () => {
  const agent = async (...values: readonly Value[]) => {
    const { hostPID = false, hostIPC = false } = podOf(find(await render(...values), 'DaemonSet', 'moorage-node'));
    return { hostPID, hostIPC };
  };
  assert.deepEqual(await agent(), { hostPID: true, hostIPC: false });
  assert.deepEqual(await agent('lvmd.lvmCommandPrefix={/usr/bin/nsenter,--all,/sbin/lvm}'), {
    hostPID: true,
    hostIPC: false,
  });
  assert.deepEqual(await agent('lvmd.lvmCommandPrefix={/sbin/lvm}'), { hostPID: false, hostIPC: true });
  assert.deepEqual(await agent('lvmd.managed=false'), { hostPID: false, hostIPC: false });
  const files: readonly Value[] = [
    'lvmd.deviceClasses[0].name=files',
    'lvmd.deviceClasses[0].type=file',
    'lvmd.deviceClasses[0].path=/srv/volumes',
  ];
  assert.deepEqual(await agent(...files), { hostPID: false, hostIPC: false });
});

test('the new agent starts beside the old one, unless node.maxUnavailable is set', async () => {
  const strategy = async (...values: readonly Value[]) => {
    const { spec } = find(await render(...values), 'DaemonSet', 'moorage-node') as unknown as {
      spec: { updateStrategy: { rollingUpdate: object } };
    };
    return spec.updateStrategy.rollingUpdate;
  };
  assert.deepEqual(await strategy(), { maxSurge: '10%', maxUnavailable: 0 });
  assert.deepEqual(await strategy('node.maxSurge=3'), { maxSurge: 3, maxUnavailable: 0 });
  assert.deepEqual(await strategy('node.maxUnavailable=20%'), { maxSurge: 0, maxUnavailable: '20%' });
});

test('the controller has two replicas on different nodes, and is replaced half a minute after its node is lost', async () => {
  const deployment = (objects: readonly Rendered[]) => find(objects, 'Deployment', 'moorage-controller');
  const { replicas } = deployment(everything)['spec'] as { replicas: number };
  const { affinity, tolerations = [] } = podOf(deployment(everything));
  assert.equal(replicas, 2);
  const [{ podAffinityTerm } = {}] = affinity?.podAntiAffinity?.preferredDuringSchedulingIgnoredDuringExecution ?? [];
  assert.equal(podAffinityTerm?.topologyKey, 'kubernetes.io/hostname');
  const common = { operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 30 };
  const lost = ['not-ready', 'unreachable'].map((state) => ({ key: `node.kubernetes.io/${state}`, ...common }));
  assert.deepEqual(tolerations, lost);
  const staticVolumesOnly = objectsIn(await textOf('local-pv', []));
  assert.deepEqual(podOf(deployment(staticVolumesOnly)).tolerations, lost);

  // The first one that matches a taint counts.
  const everywhere = await render('controller.tolerations[0].operator=Exists');
  assert.deepEqual(podOf(deployment(everywhere)).tolerations, [...lost, { operator: 'Exists' }]);
  const patient = await render('controller.tolerations[0].key=node.kubernetes.io/unreachable');
  assert.deepEqual(podOf(deployment(patient)).tolerations, [lost[0], { key: 'node.kubernetes.io/unreachable' }]);
});

test('the limits of inline volumes reach every agent, and disabled inline volumes are removed from the CSIDriver', async () => {
  const limitsAndModes = async (...values: readonly Value[]) => {
    const objects = await render(...values);
    const { args = [] } = podOf(find(objects, 'DaemonSet', 'moorage-node')).containers[0] ?? {};
    const { volumeLifecycleModes } = find(objects, 'CSIDriver', 'topolvm.io')['spec'] as Record<string, unknown>;
    return [args.filter((word) => word.startsWith('--inline')), volumeLifecycleModes];
  };
  assert.deepEqual(await limitsAndModes(), [
    ['--inline-volumes=true', '--inline-device-classes=', '--inline-max-size=10Gi'],
    ['Persistent', 'Ephemeral'],
  ]);
  assert.deepEqual(
    await limitsAndModes(
      'node.inlineVolumes.enabled=false',
      'node.inlineVolumes.deviceClasses={hdd,nvme}',
      'node.inlineVolumes.maxSize=1Ti',
    ),
    [['--inline-volumes=false', '--inline-device-classes=hdd,nvme', '--inline-max-size=1Ti'], ['Persistent']],
  );
});

test('the directory of a file class has the same path in the pod as on the node', async () => {
  const objects = await render(
    'lvmd.deviceClasses[0].name=files',
    'lvmd.deviceClasses[0].type=file',
    'lvmd.deviceClasses[0].path=/srv/volumes',
  );
  const agent = find(objects, 'DaemonSet', 'moorage-node');
  const mount = podOf(agent).containers[0]?.volumeMounts?.find(({ mountPath }) => mountPath === '/srv/volumes');
  assert.ok(mount);
  assert.equal(mount.mountPropagation, 'HostToContainer', 'a disk mounted there later is visible');
  const { volumes } = podOf(agent) as unknown as { volumes: { name: string; hostPath?: { path: string } }[] };
  assert.equal(volumes.find(({ name }) => name === mount.name)?.hostPath?.path, '/srv/volumes');

  const { args = [], volumeMounts = [] } = podOf(agent).containers[0] ?? assert.fail();
  const stateDirectory = args.find((arg) => arg.startsWith('--state-dir='))?.slice('--state-dir='.length);
  const { name } = volumeMounts.find(({ mountPath }) => mountPath === stateDirectory) ?? assert.fail();
  const kept = volumes.find((volume) => volume.name === name);
  assert.equal(kept?.hostPath?.path, stateDirectory, "its record outlives the pod, on the node's own disk");
});

test('each additional configuration has a DaemonSet of its own', async () => {
  const objects = await render(
    'lvmd.additionalConfigs[0].deviceClasses[0].name=hdd',
    'lvmd.additionalConfigs[0].deviceClasses[0].volume-group=vg-hdd',
    'lvmd.additionalConfigs[0].nodeSelector.disks=hdd',
  );
  const agent = find(objects, 'DaemonSet', 'moorage-node-1') as unknown as {
    spec: { template: { spec: { nodeSelector: object; volumes: { configMap?: { name: string } }[] } } };
  };
  const { nodeSelector, volumes } = agent.spec.template.spec;
  assert.deepEqual(nodeSelector, { disks: 'hdd' });
  assert.ok(volumes.some(({ configMap }) => configMap?.name === 'moorage-lvmd-1'));
  const data = find(objects, 'ConfigMap', 'moorage-lvmd-1')['data'] as Record<string, string>;
  assert.match(data['lvmd.yaml'] ?? '', /vg-hdd/);
});

test('uninstalling keeps the CRDs, and with them their objects', () => {
  for (const name of ['logicalvolumes.topolvm.io', 'nodestorages.moorage.dev', 'volumemoves.moorage.dev']) {
    const crd = find(everything, 'CustomResourceDefinition', name);
    assert.equal(crd.metadata.annotations?.['helm.sh/resource-policy'], 'keep');
  }
});

/** What all roles of the controller's ServiceAccount allow. */
async function controllerRights(...values: readonly Value[]): Promise<readonly string[]> {
  const objects = await render(...values);
  const rights = objects
    .filter(({ kind }) => kind === 'ClusterRole' || kind === 'Role')
    .filter(({ kind, metadata }) => {
      const { subjects } = find(objects, `${kind}Binding`, metadata.name) as unknown as {
        subjects: { name: string }[];
      };
      return subjects.some(({ name }) => name === 'moorage-controller');
    })
    .flatMap(rightsOf);
  return [...new Set(rights.map(formatRight))].sort();
}

test('the controller may change its webhook configurations only if it creates its own certificates', async () => {
  const ofConfigurations = async (...values: readonly Value[]) =>
    (await controllerRights(...values)).filter((right) => right.includes('webhookconfigurations'));
  const [mutating, validating] = ['mutating', 'validating'].map(
    (kind) => `${kind}webhookconfigurations.admissionregistration.k8s.io moorage`,
  );
  const seen = [`list ${mutating}`, `list ${validating}`, `watch ${mutating}`, `watch ${validating}`];
  const pods = 'webhook.podMutatingWebhook.enabled=true';
  assert.deepEqual(await ofConfigurations(), [...seen, `patch ${validating}`].sort());
  assert.deepEqual(await ofConfigurations(pods), [...seen, `patch ${mutating}`, `patch ${validating}`].sort());
  assert.deepEqual(await ofConfigurations(pods, 'webhook.certManager.enabled=true'), seen);
  assert.deepEqual(await ofConfigurations(pods, 'webhook.secretName=own', 'webhook.caBundle=Q0E='), seen);
  const off = ['evictions', 'classes', 'changes'].map((name): Value => `webhook.${name}.enabled=false`);
  assert.deepEqual(await ofConfigurations(...off), []);
});

test('an eviction never depends on the webhook, and those of a move do not call it', async () => {
  const { webhooks } = find(await render(), 'ValidatingWebhookConfiguration', 'moorage') as unknown as {
    webhooks: readonly [{ failurePolicy: string; timeoutSeconds: number; matchConditions: [{ expression: string }] }];
  };
  assert.equal(webhooks[0].failurePolicy, 'Ignore');
  assert.equal(webhooks[0].timeoutSeconds, 3);
  const account = `system:serviceaccount:${namespace}:moorage-controller`;
  assert.equal(webhooks[0].matchConditions[0].expression, `request.userInfo.username != "${account}"`);
});

test('a controller that only removes finalizers from Nodes can delete no claim', async () => {
  const skipping = new Set(await controllerRights('controller.nodeFinalize.skipped=true'));
  const spared = (await controllerRights()).filter((right) => !skipping.has(right));
  assert.deepEqual(spared, [
    'delete persistentvolumeclaims',
    'get statefulsets.apps',
    'list statefulsets.apps',
    'list volumesnapshotcontents.snapshot.storage.k8s.io',
    'watch statefulsets.apps',
  ]);
});

test('the policy that protects LogicalVolumes can be switched off', async () => {
  const policies = async (...values: readonly Value[]) =>
    (await render(...values)).filter(
      ({ kind, metadata }) => kind.startsWith('ValidatingAdmissionPolicy') && metadata.name === 'moorage-logicalvolume',
    );
  assert.equal((await policies()).length, 2);
  assert.deepEqual(await policies('logicalVolumes.protected=false'), []);
});

test('a StorageClass names a filesystem only if its values do', async () => {
  const objects = await render(
    'storageClasses[0].name=plain',
    'storageClasses[1].name=xfs',
    'storageClasses[1].storageClass.fsType=xfs',
  );
  assert.equal(find(objects, 'StorageClass', 'plain')['parameters'], null);
  assert.deepEqual(find(objects, 'StorageClass', 'xfs')['parameters'], { 'csi.storage.k8s.io/fstype': 'xfs' });
});

test('an encrypted StorageClass names its Secret for staging, publishing and growth', async () => {
  const encryption = 'storageClasses[0].storageClass.encryption';
  const [secretName, secretNamespace] = ['disk-key', 'moorage-system'];
  const objects = await render(
    'storageClasses[0].name=secret',
    `${encryption}.secretName=${secretName}`,
    `${encryption}.secretNamespace=${secretNamespace}`,
  );
  assert.deepEqual(find(objects, 'StorageClass', 'secret')['parameters'], {
    'moorage.dev/encryption': 'luks2',
    'csi.storage.k8s.io/node-stage-secret-name': secretName,
    'csi.storage.k8s.io/node-stage-secret-namespace': secretNamespace,
    'csi.storage.k8s.io/node-publish-secret-name': secretName,
    'csi.storage.k8s.io/node-publish-secret-namespace': secretNamespace,
    'csi.storage.k8s.io/node-expand-secret-name': secretName,
    'csi.storage.k8s.io/node-expand-secret-namespace': secretNamespace,
  });
});

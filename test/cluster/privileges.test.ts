import assert from 'node:assert/strict';
import { after, before, describe, type TestContext, test } from 'node:test';
import manifest from '../../package.json' with { type: 'json' };
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { volumeMoves } from '../../src/api/volume-move.ts';
import { messageOf } from '../../src/base/errors.ts';
import { pods } from '../../src/kube/resource.ts';
import { diagnose } from '../../src/plugin/doctor/diagnose.ts';
import { AuditLog } from '../../worlds/cluster/audit-log.ts';
import { Cluster } from '../../worlds/cluster/cluster.ts';
import { type ClusterNode, thin, volumeGroup } from '../../worlds/cluster/cluster-node.ts';
import { fetchInside } from '../../worlds/cluster/fetch-inside.ts';
import { Moorage } from '../../worlds/cluster/moorage.ts';
import { values } from '../../worlds/cluster/values.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { find, namespace, type Rendered, render } from '../chart/chart.ts';
import { AgentFaults } from './agent-faults.ts';
import { betaAttributesClasses, createAttributesClass, limitsBecome } from './attributes-class.ts';
import { holdEvictions } from './held-evictions.ts';
import { formatRight, rightsOf, uses } from './rights.ts';
import { takeSnapshot } from './snapshot.ts';
import { StatefulSet } from './stateful-set.ts';
import { story } from './story.ts';
import { TestNamespace } from './test-namespace.ts';

/** What the chart renders with every feature enabled. */
const rendered = await render(
  'snapshot.enabled=true',
  'webhook.podMutatingWebhook.enabled=true',
  'metrics.secure=true',
);
const roles = rendered.filter(({ kind }) => kind === 'Role' || kind === 'ClusterRole');

/** The programs of the controller's pod share a ServiceAccount; their user agents differ. */
function programOf(role: Rendered): RegExp {
  const [, sidecar] = /^moorage-(csi-.*)$/.exec(role.metadata.name) ?? [];
  return sidecar ? new RegExp(`^${sidecar}/`) : /^moorage$/;
}

function accountOf(role: Rendered): string {
  const { subjects } = find(rendered, `${role.kind}Binding`, role.metadata.name) as unknown as {
    subjects: readonly [{ name: string }];
  };
  return `system:serviceaccount:${namespace}:${subjects[0].name}`;
}

describe('two controllers, and every feature of Moorage', () => {
  let audit: AuditLog;
  let cluster: Cluster;
  let moorage: Moorage;
  let ns: TestNamespace;
  /** The node of the leading controller, which dies, and the node of the other one. */
  let dying: ClusterNode;
  let other: ClusterNode;
  const step = story();

  before(async () => {
    audit = await AuditLog.create(namespace);
    const apiServerFlags = [...audit.apiServerFlags, betaAttributesClasses];
    cluster = await Cluster.start({ nodes: 2, memoryMb: 1536, apiServerFlags });
    moorage = await Moorage.install(cluster, {
      values: {
        ...values,
        controller: { replicaCount: 2 },
        webhook: { podMutatingWebhook: { enabled: true } },
        metrics: { secure: true },
      },
    });
    // The webhook's annotations on pods are for clusters with the scheduler extender.
    await cluster.kubectl('label', 'namespace', 'default', 'topolvm.io/webhook=ignore');
    ns = await TestNamespace.create(cluster, 'everything');
    await ignoredByWebhook(ns);
  });
  after(async () => {
    await cluster?.stop();
    await audit?.remove();
  });

  const ignoredByWebhook = ({ name }: TestNamespace) =>
    cluster.kubectl('label', 'namespace', name, 'topolvm.io/webhook=ignore');
  const namespaceFor = async (t: TestContext, name: string) => {
    const own = await TestNamespace.forTest(t, cluster, name);
    await ignoredByWebhook(own);
    return own;
  };

  test('limits of a VolumeAttributesClass apply to the pod, and change with the class', async (t) => {
    const ns = await namespaceFor(t, 'limited');
    await createAttributesClass(cluster, 'slow', '10Mi', '100');
    await createAttributesClass(cluster, 'slower', '1Mi', '50');
    const pod = { claims: { '/data': 'data' } };
    const annotations = { 'moorage.dev/reserve': 'true' }; // while the pod is replaced
    await ns.claim('data', { node: 'node-a', attributesClass: 'slow', annotations });
    await ns.pod('limited', pod);
    await ns.ready('limited');
    const node = await ns.nodeOf('limited');
    await limitsBecome(node, await ns.podUid('limited'), 'riops=100', 'wbps=10485760');

    await ns.patchClaim('data', { spec: { volumeAttributesClassName: 'slower' } });
    await limitsBecome(node, await ns.podUid('limited'), 'riops=50', 'wbps=1048576');
    await eventually('the claim has the other class', async () => {
      return (await ns.found('data'))?.status?.currentVolumeAttributesClassName === 'slower';
    });

    await ns.replacePod('limited', pod);
    await limitsBecome(node, await ns.podUid('limited'), 'riops=50', 'wbps=1048576');
  });

  test('a volume is created, grown, copied and removed', async (t) => {
    const ns = await namespaceFor(t, 'used');
    const there = { storageClass: 'moorage-thin', node: 'node-a' };
    await ns.claim('data', there);
    await ns.pod('user', { claims: { '/data': 'data' } });
    await ns.ready('user');
    await ns.grow('data', '200Mi');
    await ns.grown('data', '200Mi');
    await takeSnapshot(cluster, ns, 'moment', 'data');
    await ns.claim('restored', { ...there, size: '200Mi', source: { kind: 'VolumeSnapshot', name: 'moment' } });
    const clone = { source: { kind: 'PersistentVolumeClaim', name: 'data' }, size: '200Mi' } as const;
    await ns.claim('cloned', { ...there, ...clone, node: 'node-b' }); // and moved to node-a
    const annotations = { 'moorage.dev/cross-node': 'allow' };
    await ns.claim('across', { ...there, ...clone, node: 'node-b', annotations });
    for (const claim of ['restored', 'cloned', 'across']) await ns.volumeId(claim);
  });

  test('a volume moves to another node when its own is drained', async (t) => {
    const set = await StatefulSet.forTest(t, cluster, 'moving');
    await set.ready();
    const [from, [line]] = [await set.nodeOf(), await set.lines()];
    await cluster.kubectl('annotate', 'pvc', 'data-moving-0', 'moorage.dev/on-drain=move');
    const evict = async () => {
      const uid = (await cluster.kubectl('get', 'pod', 'moving-0', '-ojsonpath={.metadata.uid}')).trim();
      const done = cluster.kube.evict('moving-0', { namespace: 'default', uid });
      return done.then(() => 'evicted', messageOf);
    };
    const move = async () => (await cluster.kube.list(volumeMoves, { namespace: 'default' })).items[0];
    const isIn = async (phase: string) => (await move())?.status?.phase === phase;
    const others = cluster.nodes.map(({ name }) => name).filter((name) => name !== from);
    undoAfter(t, () => cluster.kubectl('delete', 'volumemove', '--all'));
    undoAfter(t, () => cluster.kubectl('uncordon', from, ...others));
    const release = await holdEvictions(cluster, 'default', 'moving');
    await cluster.kubectl('cordon', from, ...others);
    await eventually('there is no target', async () => /cannot begin yet/.test(await evict()), { explain });
    await cluster.kubectl('uncordon', from); // before there is a target
    await eventually('the drain is over', () => isIn('Failed'), { explain });
    const failed = (await move())?.metadata.uid;
    await cluster.kubectl('uncordon', ...others);
    await cluster.kubectl('cordon', from);
    const isAnother = async () => ![failed, undefined].includes((await move())?.metadata.uid);
    await eventually('it moves', async () => (await isAnother()) || (await evict(), false), { explain });
    await release();
    await eventually('it has moved', () => isIn('Done'), { explain });
    await eventually('its pod has, too', async () => ![from, ''].includes(await set.nodeOf()), { explain });
    await set.ready();
    assert.equal((await set.lines())[0], line);
  });

  test('the event of a claim that cannot be served is repeated', async (t) => {
    const ns = await namespaceFor(t, 'unserved');
    const there = { node: 'node-a' };
    await ns.claim('thick', there);
    await ns.volumeId('thick');
    await ns.claim('cloned', { ...there, source: { kind: 'PersistentVolumeClaim', name: 'thick' } });
    await reportedAgain('PersistentVolumeClaim', ns.name, 'cloned');
    // Only now: csi-resizer forgets a claim that grows before it has seen the claim's PersistentVolume.
    await ns.grow('thick', '100Gi');
    await reportedAgain('PersistentVolumeClaim', ns.name, 'thick');
  });

  test('the event of a snapshot that cannot be removed is repeated', async (t) => {
    const ns = await namespaceFor(t, 'held');
    await ns.claim('data', { node: 'node-a', storageClass: 'moorage-thin' });
    await takeSnapshot(cluster, ns, 'moment', 'data');
    const content = await ns.kubectl(
      ...['get', 'volumesnapshot', 'moment', '-ojsonpath={.status.boundVolumeSnapshotContentName}'],
    );
    const handle = await cluster.kubectl(
      ...['get', 'volumesnapshotcontent', content, '-ojsonpath={.status.snapshotHandle}'],
    );
    await holdOpen(t, cluster.node('a'), `/dev/${thin.volumeGroup}/${handle}`);
    await ns.kubectl('delete', 'volumesnapshot', 'moment', '--wait=false');
    await reportedAgain('VolumeSnapshotContent', 'default', content);
  });

  test('a pod that waits for a claim that is gone is replaced', async (t) => {
    const names = cluster.nodes.map(({ name }) => name);
    undoAfter(t, () => cluster.kubectl('uncordon', ...names));
    await cluster.kubectl('cordon', ...names);
    await StatefulSet.forTest(t, cluster, 'stranded');
    const uidOf = (object: string) =>
      cluster.kubectl('get', object, '--ignore-not-found', '-ojsonpath={.metadata.uid}');
    const pod = await eventually('the pod waits', async () => (await uidOf('pod/stranded-0')) || undefined);
    await cluster.kubectl('delete', 'pvc', 'data-stranded-0');
    await eventually(
      'another pod with another claim waits',
      async () => ![pod, ''].includes(await uidOf('pod/stranded-0')) && (await uidOf('pvc/data-stranded-0')) !== '',
      { explain },
    );
  });

  test('the webhook looks up what the claims of a pod request', async (t) => {
    const asking = await TestNamespace.forTest(t, cluster, 'asking');
    await asking.claim('data');
    const pod = {
      metadata: { name: 'user', namespace: asking.name },
      spec: {
        containers: [{ name: 'main', image: 'none' }],
        volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }],
      },
    };
    const created = await eventually('the webhook is trusted', () => cluster.kube.create(pods, pod));
    assert.equal(created.metadata.annotations?.['capacity.topolvm.io/00default'], String(100 * 1024 ** 2));
  });

  test('doctor finds nothing wrong with two controllers and their certificates', async () => {
    const healthy = await eventually('nothing is wrong', async () => {
      const { areas } = await diagnose(cluster.kube, manifest.version, AbortSignal.timeout(300_000));
      assert.deepEqual(
        areas.filter(({ result }) => result !== 'ok'),
        [],
      );
      return areas;
    });
    const webhook = healthy.find(({ area }) => area === 'webhook');
    assert.equal(webhook?.summary, 'certificates are valid for 6 days more');
  });

  test('only authorized clients can read metrics', async () => {
    await ns.kubectl('create', 'serviceaccount', 'prometheus');
    await cluster.kubectl('create', 'clusterrole', 'metrics-reader', '--verb=get', '--non-resource-url=/metrics');
    const account = `--serviceaccount=${ns.name}:prometheus`;
    await cluster.kubectl('create', 'clusterrolebinding', 'prometheus', '--clusterrole=metrics-reader', account);
    const token = (await ns.kubectl('create', 'token', 'prometheus')).trim();
    for (const { status } of (await cluster.kube.list(pods, { namespace })).items) {
      const shown = () => fetchInside(cluster.namespaces, `https://${status?.podIP}:8080/metrics`, token);
      await eventually('metrics are served', async () => (await shown()).startsWith('200 '));
    }
  });

  test('a leader whose lease somebody else changed checks whether it is still the leader', async () => {
    await cluster.kubectl('-n', namespace, 'annotate', 'lease/topolvm', 'example.org/looked-at=yes');
    await eventually('the leader has checked its lease', async () =>
      (await audit.entries()).some(({ verb, objectRef }) => verb === 'get' && objectRef?.name === 'topolvm'),
    );
  });

  step('when the node of a controller dies, the other one finishes its work', async (t) => {
    dying = await nodeOfLeader();
    other = cluster.nodes.find((node) => node !== dying) ?? assert.fail('there is no other node');
    await ns.claim('lost', { node: dying.name });
    await ns.volumeId('lost');
    await ns.claim('kept', { node: dying.name });
    await ns.volumeId('kept');
    await ns.kubectl('annotate', 'pvc', 'kept', 'moorage.dev/on-node-removal=keep');
    await ns.pod('waiting', { claims: { '/data': 'lost' }, node: 'nowhere' });
    await ns.claim('before', { node: other.name });
    const before = await ns.volumeId('before');
    const letLvmGoOn = await new AgentFaults(cluster, moorage, other).holdLvm(t);
    await ns.claim('begun', { node: other.name });
    await eventually('a volume is requested', async () =>
      (await cluster.kube.list(logicalVolumes)).items.some(({ status }) => !status?.volumeID),
    );

    await dying.kill();
    await letLvmGoOn();

    await eventually('the claim is bound', async () => (await ns.found('begun'))?.status?.phase === 'Bound', {
      explain,
    });
    assert.equal((await nodeOfLeader()).name, other.name);
    const onDisk = await other.shell(`lvs --noheadings -o lv_name ${volumeGroup}`);
    assert.deepEqual(onDisk.trim().split(/\s+/).sort(), [before, await ns.volumeId('begun')].sort());
  });

  step('when its Node is deleted, its volumes are released', async () => {
    const kept = (await ns.found('kept'))?.spec?.volumeName ?? '';
    await cluster.kubectl('delete', 'node', dying.name);
    await eventually('its other claim is gone too', async () => (await ns.found('kept')) === undefined, { explain });
    const policy = await cluster.kubectl('get', 'pv', kept, '-ojsonpath={.spec.persistentVolumeReclaimPolicy}');
    assert.equal(policy, 'Retain');
    await cluster.kubectl('delete', 'pv', kept);
    await cluster.kubectl('annotate', 'logicalvolume', kept, 'moorage.dev/allow-delete=true');
    await cluster.kubectl('delete', 'logicalvolume', kept); // its node cannot remove it any more
    await eventually('its claim is gone', async () => (await ns.found('lost')) === undefined, { explain });
    const waiting = () => cluster.kube.get(pods, 'waiting', { namespace: ns.name });
    await eventually('so is its pod', async () => (await waiting()) === undefined, { explain });
    await eventually(
      'its capacity is no longer published',
      async () =>
        !(await cluster.kubectl('-n', namespace, 'get', 'csistoragecapacities', '-oyaml')).includes(dying.name),
      { explain },
    );
  });

  step('all volumes are removed', async () => {
    await ns.empty();
    await moorage.whenNoVolumes();
  });

  // Before the roles are deleted, which may happen while their users are still stopping.
  step('no permission is missing: no request was forbidden', async () => {
    const refused = (await audit.entries()).filter(({ responseStatus }) => responseStatus?.code === 403);
    assert.deepEqual(refused, []);
  });

  step('the chart can be uninstalled', async () => {
    await moorage.uninstallWithCheck();
  });

  for (const role of roles) {
    step(`${role.kind} ${role.metadata.name} has no unused permission`, async () => {
      const account = accountOf(role);
      const program = programOf(role);
      const entries = (await audit.entries()).filter(
        ({ user, userAgent = '' }) => user.username === account && program.test(userAgent),
      );
      const unused = rightsOf(role).filter((right) => !entries.some((entry) => uses(entry, right)));
      assert.deepEqual(unused.map(formatRight), []);
    });
  }

  /** csi-provisioner does not write its node into its lease, but its token contains it. */
  async function nodeOfLeader(): Promise<ClusterNode> {
    return eventually('a csi-provisioner leads', async () => {
      const renewals = (await audit.entries()).filter(
        ({ objectRef, verb }) =>
          objectRef?.resource === 'leases' && objectRef.name === 'topolvm-io' && verb === 'update',
      );
      const [name] = renewals.at(-1)?.user.extra?.['authentication.kubernetes.io/pod-name'] ?? [];
      const pod = name && (await cluster.kube.get(pods, name, { namespace }));
      return pod ? cluster.node(pod.spec?.nodeName ?? '') : undefined;
    });
  }

  /** The first report creates an Event, the next ones increase its count. */
  async function reportedAgain(kind: string, where: string, name: string): Promise<void> {
    const selector = `--field-selector=type=Warning,involvedObject.kind=${kind},involvedObject.name=${name}`;
    await eventually(
      `${kind} ${name} is complained of again`,
      async () => {
        const counts = await cluster.kubectl('-n', where, 'get', 'events', selector, '-ojsonpath={.items[*].count}');
        return counts.split(' ').some((count) => Number(count) > 1);
      },
      { explain },
    );
  }

  function explain(): Promise<string> {
    return cluster.tails();
  }
});

/** Keeps it open until the end of the test, like an administrator who inspects it on the node. */
async function holdOpen(t: TestContext, node: ClusterNode, device: string): Promise<void> {
  const pid = await node.shell(`sleep 1000000 <${device} >/dev/null 2>&1 & echo $!`);
  undoAfter(t, () => node.shell(`kill ${pid}`));
}

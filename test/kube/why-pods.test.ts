import assert from 'node:assert/strict';
import { hostname } from 'node:os';
import { describe, type TestContext, test } from 'node:test';
import { stringify } from 'yaml';
import { karpenterFinalizer, nodeFinalizer } from '../../src/api/names.ts';
import { volumeMoves } from '../../src/api/volume-move.ts';
import { leases, nodes, pods, statefulSets } from '../../src/kube/resource.ts';
import { fetchInside } from '../../worlds/cluster/fetch-inside.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { startStandby } from './api-server.ts';
import { createSet } from './machines.ts';
import { on, size, WhyWorld } from './why-world.ts';

/** Why a pod waits for its claims, its StatefulSet or a move, and what the controller reports. Each test has nodes of its own. */
const world = await WhyWorld.start('shop', { callTimeout: '10m' });
const { admin, namespace } = world;

/** Nobody can delete the claim, as if the company had a rule against it; until the test ends. */
async function refuseDeletion(t: TestContext, claim: string): Promise<void> {
  const name = `keep-${claim}`;
  const policies = { apiVersion: 'admissionregistration.k8s.io/v1', metadata: { name } };
  const file = await world.file(
    [
      {
        ...policies,
        kind: 'ValidatingAdmissionPolicy',
        spec: {
          matchConstraints: {
            resourceRules: [
              {
                apiGroups: [''],
                apiVersions: ['v1'],
                operations: ['DELETE'],
                resources: ['persistentvolumeclaims'],
                resourceNames: [claim],
              },
            ],
          },
          validations: [{ expression: 'false', message: 'this claim is kept' }],
        },
      },
      {
        ...policies,
        kind: 'ValidatingAdmissionPolicyBinding',
        spec: { policyName: name, validationActions: ['Deny'] },
      },
    ]
      .map((object) => stringify(object))
      .join('---\n'),
  );
  await world.cluster.kubectl('apply', `-f${file}`);
  t.after(() => world.cluster.kubectl('delete', `-f${file}`));
}

describe('a pod waits', { concurrency: true }, () => {
  test('for its gate, or for a claim that is missing, goes, or is used by another pod', async () => {
    await world.node('held');
    await world.pod('gated', [], { schedulingGates: [{ name: 'example.org/licence' }] });
    assert.equal(
      await world.becomes('SchedulingGated', 'gated'),
      'pod gated waits: it has the scheduling gate example.org/licence, which another program removes',
    );
    await world.pod('claimless', ['nothing']);
    await world.isStuck(
      'ClaimMissing',
      'claimless',
      'its claim nothing does not exist; create it, or correct the name in the pod',
    );
    await world.claim('alone', { ...size('1Gi'), accessModes: ['ReadWriteOncePod'] });
    await world.pod('first', ['alone'], on('held'));
    assert.equal(
      await world.becomes('Starting', 'pod/first'),
      'pod first waits: it starts on node held (its claims have their volumes)',
    );
    await world.pod('second', ['alone'], on('held'));
    await world.isStuck(
      'VolumeInUse',
      'second',
      'only one pod at a time may use its claim alone, and pod first does; end that pod, or use the access mode ReadWriteOnce',
    );
    await world.delete('alone');
    assert.equal(
      await world.becomes('UsedByPod', 'pvc/alone'),
      'claim alone waits: it is being deleted, and pod first uses it; delete the pod',
    );
    await world.isStuck(
      'ClaimBeingDeleted',
      'second',
      'its claim alone is being deleted, and pod first uses it; delete the pod',
    );
    await world.claim('kept', {}, { finalizers: ['example.org/backup'] });
    await world.delete('kept');
    assert.equal(
      await world.becomes('OtherFinalizer', 'kept'),
      'claim kept waits: it is being deleted, and has the finalizer example.org/backup, which another program removes; see whether that program runs',
    );
    await world.claim('bypassed');
    await world.pod('bypassing', ['bypassed'], { nodeName: 'held' });
    const bypassed =
      'was created with nodeName held and bypassed the scheduler, so no volume is created for claim bypassed; replace nodeName in the pod with nodeSelector kubernetes.io/hostname: held';
    assert.equal(
      await world.becomes('SchedulerBypassed', 'pvc/bypassed'),
      `claim bypassed waits: pod bypassing ${bypassed}`,
    );
    assert.equal(await world.becomes('SchedulerBypassed', 'pod/bypassing'), `pod bypassing waits: it ${bypassed}`);
  });

  test('for its StatefulSet', async (t) => {
    await world.node('staff');
    await createSet(admin, namespace, 'ordered', 'fast', { pod: on('staff'), set: { replicas: 2 } });
    assert.equal(
      await world.becomes('LowerOrdinal', 'pod/ordered-1'),
      'pod ordered-1 waits: it is created after pod ordered-0 is ready; see kubectl moorage why pod/ordered-0',
    );
    await createSet(admin, namespace, 'forbidden', 'fast', { pod: { serviceAccountName: 'nobody' } });
    assert.match(
      await world.becomes('NotCreated', 'pod/forbidden-0'),
      /^pod forbidden-0 waits: it cannot be created: .*serviceaccount "nobody" not found/,
    );
    await refuseDeletion(t, 'data-again-0');
    const persistentVolumeClaimRetentionPolicy = { whenScaled: 'Delete' };
    await createSet(admin, namespace, 'again', 'fast', {
      pod: on('staff'),
      set: { persistentVolumeClaimRetentionPolicy },
    });
    await world.becomes('Starting', 'pod/again-0');
    await eventually('the API server follows the rule', () =>
      world.cluster.kubectl('-n', namespace, 'delete', 'pvc', 'data-again-0', '--dry-run=server').then(
        () => false,
        (error: Error) => error.message.includes('this claim is kept'),
      ),
    );
    const scale = (replicas: number) =>
      admin.patch(statefulSets, 'again', { type: 'merge', body: { spec: { replicas } } }, { namespace });
    await scale(0);
    await eventually('the pod is gone', async () => !(await admin.get(pods, 'again-0', { namespace })));
    await scale(1);
    assert.equal(
      await world.becomes('StaleClaim', 'pod/again-0'),
      'pod again-0 waits: it is created after claim data-again-0 of its predecessor is gone, which Kubernetes deletes; wait, or give its data up',
    );
  });

  test('for ten seconds, and the leading controller reports on its claim why, once for each reason', async (t) => {
    await eventually('the controller leads', async () =>
      (await admin.get(leases, 'topolvm', { namespace: 'moorage-system' }))?.spec?.holderIdentity?.startsWith(
        hostname(),
      ),
    );
    const standby = await startStandby(world.cluster, 'standby');
    t.after(() => standby.kill());
    await eventually('the standby is ready', async () =>
      (await fetchInside(world.cluster.namespaces, 'http://127.0.0.1:8081/readyz')).startsWith('200'),
    );
    const claims = ['report-1', 'report-2', 'report-3', 'report-4'];
    await world.node('reported');
    for (const name of claims) await world.volume(name, 'reported', size('1Gi'));
    t.after(() => world.patchNode('reported', { spec: { unschedulable: null, taints: null } }));
    await world.patchNode('reported', { spec: { unschedulable: true } });
    for (const name of claims) await world.pod(`user-${name}`, [name]);
    for (const name of claims) {
      const [event] = await world.reportsOn(name, 1);
      assert.equal(event?.note, (await world.why(`pvc/${name}`)).sentence);
    }
    // A change of the pod that changes nothing about its reason.
    for (const name of claims) {
      const body = { metadata: { labels: { changed: 'yes' } } };
      await admin.patch(pods, `user-${name}`, { type: 'merge', body }, { namespace });
    }
    const taints = [{ key: 'disk', value: 'old', effect: 'NoSchedule' }];
    await world.patchNode('reported', { spec: { unschedulable: null, taints } });
    for (const name of claims) {
      const found = await world.reportsOn(name, 2);
      const sentence = (end: string) =>
        `claim ${name} waits: pod user-${name} is not scheduled: its data is on node ${end}`;
      assert.deepEqual(
        found.map(({ reason, note, type, reportingInstance }) => [reason, note, type, reportingInstance]),
        [
          [
            'NodeCordoned',
            sentence('reported, which is cordoned; run kubectl uncordon reported'),
            'Warning',
            hostname(),
          ],
          [
            'NodeTainted',
            sentence('reported: it has the taint disk=old:NoSchedule; remove the taint, or give the pod a toleration'),
            'Warning',
            hostname(),
          ],
        ],
      );
    }
  });

  test('while its node leaves, which waits for a move', async () => {
    await world.node('leaving');
    await world.node('arriving', { hasAgent: false });
    await world.volume('moved', 'leaving', size('1Gi'));
    const spec = { claimName: 'moved', targetNode: 'arriving' };
    await admin.create(volumeMoves, { metadata: { name: 'journey', namespace }, spec });
    await world.becomes('Moving', 'pvc/moved');
    await eventually('it is planned', async () => {
      const { status } = (await admin.get(volumeMoves, 'journey', { namespace })) ?? {};
      return status?.sourceNode === 'leaving';
    });
    // Otherwise the move would be aborted, and could end first.
    await world.patchNode('leaving', { metadata: { finalizers: [nodeFinalizer, karpenterFinalizer] } });
    world.machines.forget('leaving');
    await admin.delete(nodes, 'leaving');
    assert.equal(
      await world.becomes('NodeLeaving', 'node/leaving'),
      'node leaving waits: it is being deleted while the volume of claim shop/moved moves',
    );
  });
});

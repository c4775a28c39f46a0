import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chartDir, helm, render, type Value } from './chart.ts';

test('helm lint reports no problem', async () => {
  await helm('lint', '--strict', chartDir);
});

const good: Record<string, readonly Value[]> = {
  'no values at all': [],
  'a thin class': [
    'lvmd.deviceClasses[0].name=thin',
    'lvmd.deviceClasses[0].type=thin',
    'lvmd.deviceClasses[0].volume-group=vg0',
    'lvmd.deviceClasses[0].thin-pool.name=pool0',
    'lvmd.deviceClasses[0].thin-pool.overprovision-ratio=5',
  ],
  'a class of files': [
    'lvmd.deviceClasses[0].name=files',
    'lvmd.deviceClasses[0].type=file',
    'lvmd.deviceClasses[0].path=/var/lib/moorage',
  ],
  'an lvmd of the machine': ['lvmd.managed=false', 'node.lvmdSocket=/run/lvmd/lvmd.sock'],
  "the image's own LVM": ['lvmd.lvmCommandPrefix={/sbin/lvm}'],
  'a second kind of nodes': [
    'lvmd.additionalConfigs[0].deviceClasses[0].name=hdd',
    'lvmd.additionalConfigs[0].deviceClasses[0].volume-group=vg-hdd',
    'lvmd.additionalConfigs[0].nodeSelector.disks=hdd',
  ],
  'agents that are ended before the next ones start': ['node.maxUnavailable=1'],
  'the same, said in full': ['node.maxSurge=0', 'node.maxUnavailable=10%'],
  k0s: ['node.kubeletWorkDirectory=/var/lib/k0s/kubelet'],
  'snapshots, alerts and metrics': [
    'snapshot.enabled=true',
    'prometheus.podMonitor.enabled=true',
    'prometheus.rules.enabled=true',
    'grafana.dashboard.enabled=true',
  ],
  'metrics for those who may read them': [
    'metrics.secure=true',
    'prometheus.podMonitor.enabled=true',
    'prometheus.podMonitor.authorization.credentials.name=prometheus-token',
    'prometheus.podMonitor.authorization.credentials.key=token',
  ],
  'the extender with cert-manager': [
    'scheduler.enabled=true',
    'webhook.podMutatingWebhook.enabled=true',
    'webhook.certManager.enabled=true',
  ],
  'the webhook with certificates that it makes': ['webhook.podMutatingWebhook.enabled=true'],
  'the webhook with a certificate of your own': [
    'webhook.podMutatingWebhook.enabled=true',
    'webhook.secretName=own',
    'webhook.caBundle=Q0E=',
  ],
};

for (const [what, values] of Object.entries(good)) {
  test(`${what}: accepted`, async () => {
    assert.ok((await render(...values)).length > 20);
  });
}

const bad: Record<string, { readonly values: readonly Value[]; readonly says: RegExp }> = {
  'a misspelt name': { values: ['node.kubletWorkDirectory=/x'], says: /kubletWorkDirectory/ },
  'a class without a volume group': {
    values: ['lvmd.deviceClasses[0].name=ssd'],
    says: /missing property 'volume-group'/,
  },
  'a file class without a directory': {
    values: ['lvmd.deviceClasses[0].name=files', 'lvmd.deviceClasses[0].type=file'],
    says: /missing property 'path'/,
  },
  'a thin class without a pool': {
    values: [
      'lvmd.deviceClasses[0].name=thin',
      'lvmd.deviceClasses[0].type=thin',
      'lvmd.deviceClasses[0].volume-group=vg0',
    ],
    says: /missing property 'thin-pool'/,
  },
  'no class at all': { values: ['lvmd.deviceClasses=null'], says: /deviceClasses|device-classes/ },
  'a kubelet directory that is not an absolute path': {
    values: ['node.kubeletWorkDirectory=kubelet'],
    says: /kubeletWorkDirectory/,
  },
  'an unsupported filesystem': {
    values: ['storageClasses[0].name=a', 'storageClasses[0].storageClass.fsType=zfs'],
    says: /fsType/,
  },
  'an unknown reclaim policy': {
    values: ['storageClasses[0].name=a', 'storageClasses[0].storageClass.reclaimPolicy=Recycle'],
    says: /reclaimPolicy/,
  },
  'an encryption without a Secret': {
    values: ['storageClasses[0].name=a', 'storageClasses[0].storageClass.encryption.secretName=key'],
    says: /missing property 'secretNamespace'/,
  },
  'no replica': { values: ['controller.replicaCount=0'], says: /replicaCount/ },
  'an upgrade that could never make progress': {
    values: ['node.maxSurge=0%'],
    says: /set node\.maxSurge, or node\.maxUnavailable/,
  },
  'an invalid size': { values: ['node.inlineVolumes.maxSize=large'], says: /maxSize/ },
  'metrics for which Prometheus has no token': {
    values: ['metrics.secure=true', 'prometheus.podMonitor.enabled=true'],
    says: /set prometheus\.podMonitor\.authorization/,
  },
  'a CIDR without its prefix length': { values: ['networkPolicy.apiServerCIDRs={10.0.0.1}'], says: /apiServerCIDRs/ },
  'an unknown log level': { values: ['node.logLevel=loud'], says: /logLevel/ },
  'a certificate without a trusted CA': {
    values: ['webhook.podMutatingWebhook.enabled=true', 'webhook.secretName=own'],
    says: /set webhook\.caBundle/,
  },
};

for (const [what, { values, says }] of Object.entries(bad)) {
  test(`${what}: rejected with the reason`, async () => {
    await assert.rejects(render(...values), (error: Error) => {
      assert.match(error.message, says);
      return true;
    });
  });
}

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startApiServer } from '../kube/api-server.ts';
import { chartDir, helm, namespace } from './chart.ts';

const { cluster } = await startApiServer();
const { kubectl } = cluster;
const off = '--set=node.inlineVolumes.enabled=false';

const manage = (...words: readonly string[]) =>
  helm(...words, `--kubeconfig=${cluster.kubeconfig}`, `--namespace=${namespace}`);
const modes = async () =>
  JSON.parse(await kubectl('get', 'csidriver', 'topolvm.io', '--output=jsonpath={.spec.volumeLifecycleModes}'));

test('an upgrade that disables inline volumes names the page that says how, and changes nothing until then', async () => {
  await manage('install', 'moorage', chartDir, '--create-namespace');
  await manage('upgrade', 'moorage', chartDir, '--set=node.inlineVolumes.maxSize=1Gi');
  assert.deepEqual(await modes(), ['Persistent', 'Ephemeral']);

  await assert.rejects(manage('upgrade', 'moorage', chartDir, off), /docs\/volumes\.md#ephemeral-volumes/);
  assert.match(await manage('history', 'moorage', '--max=1'), /^2 .*deployed/m);

  await kubectl('delete', 'csidriver', 'topolvm.io');
  await manage('upgrade', 'moorage', chartDir, off);
  assert.deepEqual(await modes(), ['Persistent']);
});

import assert from 'node:assert/strict';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { codeOf } from '../../src/base/errors.ts';
import { connectionInCluster } from '../../src/kube/credentials.ts';
import { configMaps } from '../../src/kube/resource.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { connect, startApiServer } from './api-server.ts';

const api = await startApiServer();
const { kubectl } = api.cluster;

test('a new token is used as soon as the old one is rejected', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'moorage-token-'));
  t.after(() => rm(dir, { recursive: true }));
  const tokenFile = join(dir, 'token');
  const { hostname: host, port } = new URL(api.connection.server);
  const { tls } = await api.connection.credentials.read();
  await writeFile(join(dir, 'ca.crt'), tls.ca ?? '');

  await kubectl('create', 'serviceaccount', 'rotating');
  await kubectl(
    'create',
    'rolebinding',
    'rotating',
    '--clusterrole=cluster-admin',
    '--serviceaccount=default:rotating',
  );
  await writeFile(tokenFile, await kubectl('create', 'token', 'rotating'));
  const client = connect(t, await connectionInCluster({ host, port, serviceAccountDir: dir }, systemClock));
  const list = () => client.list(configMaps, { namespace: 'default' });
  assert.ok(await eventually('the role binding is in effect', list));

  // A token is bound to its ServiceAccount: when that is re-created, the old token becomes invalid.
  await kubectl('delete', 'serviceaccount', 'rotating');
  await kubectl('create', 'serviceaccount', 'rotating');
  const renewed = await kubectl('create', 'token', 'rotating');
  const refused = () => list().then(() => undefined, codeOf);
  // The API server caches a valid token for ten seconds.
  await eventually('the old token is rejected', async () => (await refused()) === 'PermissionDenied');

  await writeFile(`${tokenFile}.new`, renewed);
  await rename(`${tokenFile}.new`, tokenFile);
  assert.ok(await list());
});

import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import axe from 'axe-core';
import type { Page } from 'playwright-core';
import { buildPage } from '../../scripts/page.ts';
import { nodeStorages } from '../../src/api/node-storage.ts';
import { volumeMoves } from '../../src/api/volume-move.ts';
import { request } from '../../src/base/node-http.ts';
import { writeEvent } from '../../src/kube/events.ts';
import { nodes, persistentVolumeClaims } from '../../src/kube/resource.ts';
import { spawn } from '../../worlds/host/processes.ts';
import { type Browser, desktop, type Look, phone, startChromium } from '../../worlds/page/chromium.ts';
import { harbour } from '../../worlds/page/harbour.ts';
import { largeCluster } from '../../worlds/page/large-cluster.ts';
import { createAll } from '../../worlds/page/objects.ts';
import { servePage } from '../../worlds/page/served-page.ts';
import { newNamespace, startApiServer } from './api-server.ts';

const home = join(import.meta.dirname, '..', '..');
const api = await startApiServer();
const { admin, cluster } = api;
const paths = {
  overview: '/',
  nodes: '/nodes',
  node: '/nodes/harbor-2',
  volumes: '/volumes',
  volume: '/volumes/pvc-shop-data-orders-0',
  moves: '/moves',
  evacuation: '/evacuate?node=harbor-2',
  orphans: '/orphans',
} as const;

/** `kubectl moorage ui`, as a person starts it. */
let command: ChildProcess;
let address: string;
let base: string;
let browser: Browser;

before(async () => {
  await buildPage();
  await cluster.kubectl('apply', '-f', join(home, 'deploy/crd.yaml'));
  await cluster.kubectl('wait', '--for=condition=Established', 'crd', '--all');
  for (const name of ['shop', 'search', 'metrics', 'queue', 'archive', 'ci']) await newNamespace(api, name);
  await cluster.kubectl('-n', 'ci', 'wait', '--for=create', 'serviceaccount/default', '--timeout=60s');
  // They would delete and change objects that no machine stands behind.
  await cluster.controlPlane.controllerManager.kill();
  await cluster.controlPlane.scheduler.kill();
  await createAll(admin, harbour(Date.now()));
  // The API server gives a new Node a taint, which the controller manager would remove.
  const ready = { type: 'merge', body: { spec: { taints: null } } } as const;
  for (const i of [1, 2, 3, 4]) await admin.patch(nodes, `harbor-${i}`, ready);
  const claim = await admin.get(persistentVolumeClaims, 'data-orders-0', { namespace: 'shop' });
  const about = {
    resource: persistentVolumeClaims,
    name: 'data-orders-0',
    namespace: 'shop',
    uid: claim?.metadata.uid,
  };
  const grown = { type: 'Normal', reason: 'VolumeGrown', action: 'Growing', message: 'from 300Gi to 400Gi' } as const;
  const reporter = { controller: 'topolvm.io/controller', instance: 'test' };
  await writeEvent(admin, reporter, about, grown, Date.now(), AbortSignal.timeout(120_000));

  command = spawn(process.execPath, [join(home, 'src/plugin/main.ts'), 'ui', '--kubeconfig', cluster.kubeconfig], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = (await once(createInterface({ input: command.stdout ?? process.stdin }), 'line')) as [string];
  address = line;
  base = address.replace(/\/#.*/, '');
  browser = await startChromium();
});

after(async () => {
  await browser?.close();
  command?.kill('SIGKILL');
});

/** A tab that has the token; its browser must report no errors. */
async function withTab(look: Look, use: (tab: Page) => Promise<void>): Promise<void> {
  const tab = await browser.tab(look);
  const problems: string[] = [];
  tab.on('pageerror', ({ message }) => problems.push(message));
  tab.on('console', (message) => {
    if (message.type() === 'error') problems.push(message.text());
  });
  await tab.goto(address);
  await tab.getByText('Live', { exact: true }).waitFor();
  await use(tab);
  await tab.close();
  assert.deepEqual(problems, []);
}

async function show(tab: Page, path: string): Promise<void> {
  await tab.goto(`${base}${path}`);
  await tab.getByText('Live', { exact: true }).waitFor();
  await tab.locator('.loading').waitFor({ state: 'detached' });
}

test('every view shows the cluster, and the token leaves the address', () =>
  withTab(desktop, async (tab) => {
    assert.equal(new URL(tab.url()).hash, '');
    await tab.getByRole('heading', { level: 1, name: /3 errors, 2 warnings, 2 stuck, 1 waiting/ }).waitFor();
    await tab.getByRole('link', { name: '19 volumes' }).waitFor();
    await tab.getByText('claim data-index-4 waits: there is no StorageClass fsat').waitFor();
    const views = tab.getByRole('navigation', { name: 'Views' });

    await views.getByRole('link', { name: 'Nodes' }).click();
    await tab.getByRole('img', { name: 'ssd: 96 % used, 81 GiB free of 3.63 TiB' }).waitFor();
    await tab.getByRole('link', { name: 'harbor-3' }).click();
    await tab.getByRole('progressbar', { name: 'Thin metadata' }).waitFor();
    await tab.getByRole('progressbar', { name: 'Erasing lv-7f3c11' }).waitFor();

    await views.getByRole('link', { name: 'Volumes' }).click();
    const search = tab.getByRole('searchbox');
    await search.fill('orders harbor-1');
    await tab.getByText('1 of 19').waitFor();
    await tab.getByRole('link', { name: 'shop/data-orders-0' }).click();
    const timeline = tab.locator('.timeline');
    for (const moment of [
      'Claim shop/data-orders-0 created',
      'Pod orders-0 scheduled on harbor-1',
      'from 300Gi to 400Gi',
    ]) {
      await timeline.getByText(moment).waitFor();
    }
    await timeline.getByText('Moved to harbor-1').waitFor();

    await views.getByRole('link', { name: 'Volumes' }).click();
    await tab.getByRole('combobox', { name: 'Any health' }).selectOption('Missing');
    await tab.getByText('1 of 19').waitFor();
    await tab.getByRole('combobox', { name: 'Any health' }).selectOption('');
    await tab.getByRole('button', { name: 'Size' }).click();
    await tab.getByRole('button', { name: 'Size' }).click();
    await tab.locator('[aria-rowindex="2"]').getByText('2 TiB').waitFor();

    await views.getByRole('link', { name: 'Moves' }).click();
    await tab.getByRole('progressbar', { name: 'Round 1 of data-orders-1' }).waitFor();

    await views.getByRole('link', { name: 'Evacuate' }).click();
    await tab.getByPlaceholder('Evacuate node').fill('harbor-2');
    await tab.getByText('2 volumes would move').waitFor();

    await views.getByRole('link', { name: 'Orphans' }).click();
    await tab.getByText('kubectl moorage reattach pv/pvc-legacy').waitFor();
  }));

test('the page follows the cluster without being loaded again', () =>
  withTab(desktop, async (tab) => {
    await show(tab, paths.moves);
    const name = 'data-orders-1-x7k2p';
    const body = { status: { target: { copiedBytes: 400_000_000_000 } } };
    await admin.patch(volumeMoves, name, { type: 'merge', body }, { namespace: 'shop', subresource: 'status' });
    await tab.getByText('93 % of 400 GiB').waitFor();
    const nothing = { total: 0, volumes: [] };
    const report = await admin.get(nodeStorages, 'harbor-3');
    const status = { ...report?.status, updatedAt: new Date().toISOString(), erasures: nothing };
    await show(tab, '/nodes/harbor-3');
    await tab.getByText('Being erased').waitFor();
    await admin.patch(nodeStorages, 'harbor-3', { type: 'merge', body: { status } });
    await tab.getByText('Being erased').waitFor({ state: 'detached' });
  }));

test('everything can be reached with the keyboard alone', () =>
  withTab(desktop, async (tab) => {
    await tab.keyboard.press('3');
    await tab.getByRole('heading', { name: 'Volumes' }).waitFor();
    await tab.locator('h1:focus').waitFor();
    await tab.keyboard.press('/');
    await tab.keyboard.type('kafka');
    await tab.getByText('3 of 19').waitFor();
    await tab.keyboard.press('Escape');
    const grid = tab.locator('[role=grid]:focus');
    for (let i = 0; i < 20 && (await grid.count()) === 0; i++) await tab.keyboard.press('Tab');
    await tab.keyboard.press('ArrowDown');
    await tab.keyboard.press('End');
    await tab.locator('[aria-selected="true"]').getByText('data-kafka-2').waitFor();
    await tab.keyboard.press('Enter');
    await tab.getByRole('heading', { name: 'queue/data-kafka-2' }).waitFor();
    await tab.locator('h1:focus').waitFor(); // a screen reader reads on from there
    await tab.goBack();
    await tab.getByText('3 of 19').waitFor();
    await tab.keyboard.press('?');
    await tab.getByRole('dialog', { name: 'Keys' }).waitFor();
    await tab.keyboard.press('Escape');
    await tab.getByRole('dialog').waitFor({ state: 'detached' });
  }));

for (const [what, look, views] of [
  ['in light', desktop, paths],
  ['in dark', { ...desktop, colorScheme: 'dark' }, paths],
  ['on a phone', phone, { volumes: paths.volumes, moves: paths.moves }],
] as const) {
  test(`axe finds nothing ${what}`, () =>
    withTab(look, async (tab) => {
      for (const [view, path] of Object.entries(views)) {
        await show(tab, path);
        await tab.evaluate(axe.source);
        const { violations } = await tab.evaluate<{ violations: Violation[] }>('axe.run()');
        const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
        assert.deepEqual(found, [], view);
      }
    }));
}

test('nothing is wider than a phone', () =>
  withTab(phone, async (tab) => {
    for (const [view, path] of Object.entries(paths)) {
      await show(tab, path);
      const wider = await tab.evaluate<string[]>(
        "[document.documentElement, ...document.querySelectorAll('main, .grid')]" +
          '.filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.className || each.tagName)',
      );
      assert.deepEqual(wider, [], view);
    }
  }));

test('of 20,000 volumes, only those that can be seen are in the document', async () => {
  const large = await servePage(largeCluster(Date.now()), 'large');
  try {
    const tab = await browser.tab(desktop);
    await tab.goto(large.address);
    await tab.getByRole('link', { name: '20,000 volumes' }).click();
    const grid = tab.getByRole('grid', { name: 'Volumes' });
    await grid.getByText('team-0/data-db-0', { exact: true }).waitFor();
    await grid.press('End');
    await tab.locator('[aria-selected="true"][aria-rowindex="20001"]').getByText('data-db-19979').waitFor();
    const elements = await tab.evaluate<number>("document.querySelectorAll('main *').length");
    assert.ok(elements < 3_000, `${elements} elements`);
    await tab.close();
  } finally {
    await large.stop();
  }
});

interface Violation {
  readonly id: string;
  readonly nodes: readonly { readonly html: string }[];
}

test('without the token, or from another site, nothing is answered', async () => {
  const [, token = ''] = address.split('#token=');
  const { port } = new URL(base);
  /** Not fetch: a browser would not let us choose Host and Origin either. */
  const statusOf = async (headers: Record<string, string>) => {
    const asked = request({ host: '127.0.0.1', port, path: '/api/node?name=harbor-1', headers });
    asked.end();
    const [response] = await once(asked, 'response');
    response.resume();
    return response.statusCode as number;
  };
  const authorization = `Bearer ${token}`;
  assert.equal(await statusOf({ authorization }), 200);
  assert.equal(await statusOf({}), 401);
  assert.equal(await statusOf({ authorization: `Bearer ${token.slice(1)}` }), 401);
  assert.equal(await statusOf({ authorization, host: `evil.example:${port}` }), 403);
  assert.equal(await statusOf({ authorization, origin: 'https://evil.example' }), 403);
  const tab = await browser.tab(desktop);
  await tab.goto(`${base}/volumes`);
  await tab.getByText('This page has no valid token').waitFor();
  await tab.close();
});

test('Ctrl-C ends the command, and an open page says that it is disconnected', async () => {
  const tab = await browser.tab(desktop);
  await tab.goto(address);
  await tab.getByText('Live', { exact: true }).waitFor();
  const exited = once(command, 'exit');
  command.kill('SIGINT');
  assert.deepEqual(await exited, [0, null]);
  await tab.getByText('Disconnected', { exact: true }).waitFor();
  await tab.getByRole('link', { name: '19 volumes' }).waitFor();
  await tab.close();
});

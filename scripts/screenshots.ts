// npm run screenshots: pictures of every view of the page, for docs/.
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { execute } from '../worlds/host/processes.ts';
import { desktop, type Look, phone, startChromium } from '../worlds/page/chromium.ts';
import { harbour } from '../worlds/page/harbour.ts';
import { servePageForHours } from '../worlds/page/open-for-hours.ts';

const dir = join(import.meta.dirname, '..', 'docs', 'page');

const dark: Look = { ...desktop, colorScheme: 'dark' };
const pictures: readonly (readonly [name: string, path: string, look: Look])[] = [
  ['overview', '/', desktop],
  ['nodes', '/nodes', desktop],
  ['node', '/nodes/harbor-2', desktop],
  ['volumes', '/volumes', desktop],
  ['volume', '/volumes/pvc-shop-data-orders-0', desktop],
  ['moves', '/moves', desktop],
  ['evacuation', '/evacuate?node=harbor-2', desktop],
  ['orphans', '/orphans', desktop],
  ['volumes-dark', '/volumes', dark],
  ['nodes-phone', '/nodes', phone],
];

const page = await servePageForHours(harbour(Date.now()), 'harbor-prod');
const browser = await startChromium(['fonts-inter', 'fonts-jetbrains-mono', 'pngquant']);
await mkdir(dir, { recursive: true });
for (const [name, path, look] of pictures) {
  const tab = await browser.tab(look);
  await tab.goto(page.address);
  await tab.getByText('Live', { exact: true }).waitFor();
  await tab.goto(`${new URL(page.address).origin}${path}`);
  await tab.getByText('Live', { exact: true }).waitFor();
  await tab.locator('.loading').waitFor({ state: 'detached' });
  await tab.locator('h1').waitFor();
  const file = join(dir, `${name}.png`);
  await tab.screenshot({ path: file, animations: 'disabled' });
  await execute('pngquant', ['--force', '--skip-if-larger', '--output', file, '192', file]).catch(
    (error: { code?: number }) => {
      if (error.code !== 98 && error.code !== 99) throw error; // it would be larger
    },
  );
  await tab.close();
  console.log(file);
}
await browser.close();
await page.stop();

import { chromium, type Page } from 'playwright-core';
import { environment } from '../host/environment.ts';
import { ensurePackages } from '../host/packages.ts';
import { stage } from '../host/progress.ts';

export interface Look {
  readonly width: number;
  readonly height: number;
  readonly colorScheme: 'light' | 'dark';
}

export const desktop: Look = { width: 1280, height: 800, colorScheme: 'light' };
export const phone: Look = { width: 360, height: 740, colorScheme: 'light' };

export interface Browser {
  /** In a profile of its own, which is empty. */
  tab(look: Look): Promise<Page>;
  close(): Promise<void>;
}

/** Debian's Chromium. It talks to nobody but our page. `packages` are installed too, such as fonts. */
export async function startChromium(packages: readonly string[] = []): Promise<Browser> {
  await stage('Chromium', (say) => ensurePackages(['chromium', ...packages], say));
  const browser = await chromium.launch({
    executablePath: '/usr/bin/chromium',
    headless: true,
    env: environment(),
    args: [
      ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync'],
      ...['--disable-background-networking', '--disable-component-update'],
    ],
  });
  return {
    async tab({ width, height, colorScheme }) {
      const context = await browser.newContext({
        viewport: { width, height },
        ...{ colorScheme, reducedMotion: 'reduce' },
      });
      const tab = await context.newPage();
      tab.setDefaultTimeout(180_000);
      return tab;
    },
    close: () => browser.close(),
  };
}

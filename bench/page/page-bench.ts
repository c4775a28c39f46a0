import { gzipSync } from 'node:zlib';
import type { Page } from 'playwright-core';
import { buildPage } from '../../scripts/page.ts';
import { stage } from '../../worlds/host/progress.ts';
import { desktop, startChromium } from '../../worlds/page/chromium.ts';
import { largeCluster, largeClusterVolume, nodeCount, volumeCount } from '../../worlds/page/large-cluster.ts';
import { type ServedPage, servePage } from '../../worlds/page/served-page.ts';
import { type Statistics, statisticsOf } from '../statistics.ts';
import { table } from '../table.ts';
import { scrollFrames, typingFrames } from './frames.ts';

export interface PageResults {
  readonly nodes: number;
  readonly volumes: number;
  readonly gzippedBytes: number;
  readonly loads: Statistics;
  readonly frames: readonly FrameResults[];
  /** Until a change in the API is on the screen. */
  readonly changes: Statistics;
  readonly serverMiB: number;
}

interface FrameResults {
  readonly what: string;
  readonly ms: Statistics;
  readonly longest: number;
  /** Of the browser's main thread, per frame. At 60 frames per second it has 16.7. */
  readonly cpuMs: number;
}

const rounds = 5;
const framesPerRound = 120;
const changesPerSecond = 10;
/** On a busy machine everything takes two minutes. */
const mostMs = 170_000;

/** The page with 1,000 nodes and 20,000 volumes in a real browser: how long it takes to open, to scroll, to search. */
export async function measurePage(): Promise<PageResults> {
  const { html } = await buildPage();
  const nowMs = Date.now();
  const page = await stage(`${volumeCount} volumes`, () => servePage(largeCluster(nowMs), 'large'));
  const browser = await startChromium();
  let doing = 'opening';
  const limit = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => limit.reject(new Error(`not done after ${mostMs / 1000} s: still at "${doing}"`)),
    mostMs,
  );
  try {
    const tab = await browser.tab(desktop);
    const measured = measure(tab, page, nowMs, (what) => {
      doing = what;
    });
    const results = await Promise.race([measured, limit.promise]);
    return { nodes: nodeCount, volumes: volumeCount, gzippedBytes: gzipSync(html).length, ...results };
  } finally {
    clearTimeout(timer);
    await browser.close();
    await page.stop();
  }
}

type Measured = Omit<PageResults, 'nodes' | 'volumes' | 'gzippedBytes'>;

async function measure(tab: Page, page: ServedPage, nowMs: number, begin: (what: string) => void): Promise<Measured> {
  await open(tab, page.address); // the first one waits until the server has read the cluster
  const loads: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const started = performance.now();
    await open(tab, page.address);
    loads.push(performance.now() - started);
  }
  const cpuMs = await cpuClock(tab);
  const frames = async (what: string, script: string): Promise<FrameResults> => {
    begin(what);
    const times: number[] = [];
    const startedMs = await cpuMs();
    for (let round = 0; round < rounds; round++) times.push(...(await tab.evaluate<number[]>(script)));
    const perFrame = ((await cpuMs()) - startedMs) / times.length;
    const longest = Math.round(Math.max(...times));
    return { what, ms: statisticsOf(times), longest, cpuMs: Number(perFrame.toPrecision(2)) };
  };
  const show = async (view: string) => {
    await tab.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: view }).click();
    await tab.getByRole('grid').waitFor();
  };
  const resize = (i: number, size: string) => {
    for (const { resource, object } of largeClusterVolume(i, nowMs, size)) page.api.put(resource, object);
  };
  await show('Volumes');
  const still = await frames('scroll volumes', scrollFrames('.grid', framesPerRound));
  const search = await frames('type in the search', typingFrames('team-7/data-db-19 worker ssd'));
  await tab.getByRole('searchbox').fill('');
  let changed = 0;
  const timer = setInterval(() => {
    changed += 1;
    resize((changed * 7) % volumeCount, `${100 + changed}Gi`);
  }, 1000 / changesPerSecond);
  const busy = await frames(
    `scroll volumes, ${changesPerSecond} changes per second`,
    scrollFrames('.grid', framesPerRound),
  ).finally(() => clearInterval(timer));
  await show('Nodes');
  const nodes = await frames('scroll nodes', scrollFrames('.grid', framesPerRound));
  await show('Volumes');
  const changes: number[] = [];
  for (let round = 1; round <= 10; round++) {
    const text = `${100 + round} TiB`;
    begin(`wait for ${text}, the new size of the first volume`);
    const started = performance.now();
    resize(0, `${100 + round}Ti`);
    await tab.getByRole('grid').getByText(text, { exact: true }).waitFor();
    changes.push(performance.now() - started);
  }
  return {
    loads: statisticsOf(loads),
    frames: [still, busy, nodes, search],
    changes: statisticsOf(changes),
    serverMiB: Math.round(process.memoryUsage().rss / 1024 ** 2),
  };
}

/** The CPU time of the tab's main thread so far. */
async function cpuClock(tab: Page): Promise<() => Promise<number>> {
  const session = await tab.context().newCDPSession(tab);
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  return async () => {
    const { metrics } = await session.send('Performance.getMetrics');
    return (metrics.find(({ name }) => name === 'TaskDuration')?.value ?? Number.NaN) * 1000;
  };
}

async function open(tab: Page, address: string): Promise<void> {
  await tab.goto('about:blank');
  await tab.goto(address);
  await tab.getByText('Live', { exact: true }).waitFor();
  await tab.getByRole('link', { name: '20,000 volumes' }).waitFor();
}

export function pageTables({ nodes, volumes, gzippedBytes, loads, frames, changes }: PageResults): string {
  const rows = frames.map(({ what, ms, longest, cpuMs }) =>
    [what, ms.median, ms.p95, ms.p99, longest, cpuMs].map(String),
  );
  return [
    `With ${volumes} volumes on ${nodes} nodes; the page has ${Math.round(gzippedBytes / 1024)} KiB gzipped.`,
    `Opens in ${Math.round(loads.median)} ms; a change is on the screen after ${Math.round(changes.median)} ms (p95 ${Math.round(changes.p95)}).`,
    table([['frames, ms', 'median', 'p95', 'p99', 'longest', 'CPU per frame'], ...rows]),
  ].join('\n');
}

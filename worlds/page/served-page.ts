import { buildPage } from '../../scripts/page.ts';
import { type Clock, systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { KubeClient } from '../../src/kube/client.ts';
import { Page } from '../../src/plugin/page/page-process.ts';
import { MemoryApi } from './memory-api.ts';
import type { Entry } from './objects.ts';

export interface ServedPage {
  readonly api: MemoryApi;
  /** With its token. */
  readonly address: string;
  stop(): Promise<void>;
}

/** The page of a cluster that is only in memory. */
export async function servePage(
  entries: Iterable<Entry>,
  cluster: string,
  clock: Clock = systemClock,
): Promise<ServedPage> {
  const { html } = await buildPage();
  const api = new MemoryApi();
  for (const { resource, object } of entries) api.put(resource, object);
  const client = new KubeClient({ connection: await api.listen(), clock: systemClock, log: silentLog });
  const page = new Page({ client, clock, html, port: 0, cluster, version: '0.1.0' });
  const address = await page.start();
  return {
    api,
    address,
    async stop() {
      await page.stop();
      await client.close();
      await api.stop();
    },
  };
}

import { type NodeStorage, nodeStorages } from '../../src/api/node-storage.ts';
import { systemClock } from '../../src/base/clock.ts';
import { parseQuantity } from '../../src/base/quantity.ts';
import type { PageNode } from '../../src/plugin/page/model.ts';
import { eventually } from '../host/eventually.ts';
import type { Entry } from './objects.ts';
import { type ServedPage, servePage } from './served-page.ts';

const hours = 6;
const steps = 12;
const gibi = 1024n ** 3n;

/** How much the thin pools of some nodes have grown since. */
const growth: Readonly<Record<string, { readonly gibiBytes: number; readonly metadataPercent: number }>> = {
  'harbor-2': { gibiBytes: 150, metadataPercent: 3 },
  'harbor-3': { gibiBytes: 24, metadataPercent: 6 },
};

/** A page that was opened hours ago, and has seen thin pools grow since. Afterwards the cluster is as `entries` say. */
export async function servePageForHours(entries: readonly Entry[], cluster: string): Promise<ServedPage> {
  let step = 0;
  const behindMs = () => ((steps - step) / steps) * hours * 3_600_000;
  const clock = { ...systemClock, now: () => Date.now() - behindMs() };
  const growing = entries.filter(
    ({ resource, object }) => resource.kind === nodeStorages.kind && nameOf(object) in growth,
  );
  const page = await servePage([...entries, ...growing.map((each) => before(each, 1))], cluster, clock);
  const recorded = async () => {
    for (const { object } of growing) {
      await eventually('the report is recorded', async () => (await historyOf(page, nameOf(object))).length > step);
    }
  };
  await recorded();
  while (step < steps) {
    step += 1;
    for (const each of growing) page.api.put(each.resource, before(each, 1 - step / steps).object);
    await recorded();
  }
  return page;
}

/** The report of a node when a share of its growth was still ahead. */
function before({ resource, object }: Entry, ahead: number): Entry {
  const { status, ...rest } = object as NodeStorage;
  const grown = growth[nameOf(object)];
  const pools = status?.pools.map((pool) => {
    if (!pool.thin || !grown) return pool;
    const used = parseQuantity(String(pool.used)) - BigInt(Math.round(grown.gibiBytes * ahead)) * gibi;
    const size = parseQuantity(String(pool.size));
    const metadataPercent = Math.round(pool.thin.metadataPercent - grown.metadataPercent * ahead);
    const dataPercent = Number((used * 100n) / size);
    return { ...pool, used: String(used), free: String(size - used), thin: { dataPercent, metadataPercent } };
  });
  return { resource, object: { ...rest, ...(status && { status: { ...status, pools } }) } };
}

async function historyOf({ address }: ServedPage, node: string): Promise<readonly unknown[]> {
  const { origin, hash } = new URL(address);
  const headers = { authorization: `Bearer ${hash.replace('#token=', '')}` };
  const response = await fetch(`${origin}/api/node?name=${node}`, { headers });
  return response.ok ? (((await response.json()) as PageNode).history['thin'] ?? []) : [];
}

function nameOf({ metadata }: Entry['object']): string {
  return metadata?.name ?? '';
}

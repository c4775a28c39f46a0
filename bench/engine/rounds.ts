import type { Place, Side, SideName } from './side.ts';

export const operations = ['create', 'list', 'free', 'resize', 'remove', 'create 50', 'remove 50'] as const;
export type Operation = (typeof operations)[number];

export interface Sample {
  readonly place: Place;
  readonly operation: Operation;
  readonly side: SideName;
  readonly elapsedMs: number;
}

/** The work of one turn of a side. */
export interface Turn {
  readonly volumes: number;
  /** How many of them are grown. */
  readonly grown: number;
}

/** One turn of one side: creates, grows, reads and removes volumes, one after the other. */
export async function takeTurn(side: Side, place: Place, { volumes, grown }: Turn): Promise<Sample[]> {
  const ids = names(side, volumes);
  const samples: Sample[] = [];
  const time = async (operation: Operation, work: () => Promise<unknown>) => {
    samples.push({ place, operation, side: side.name, elapsedMs: await elapsed(work) });
  };
  side.resume();
  // Not measured: a first volume, which also makes a daemon notice what others changed since its last turn.
  await side.create(place, `${side.name}-first`);
  await side.remove(place, `${side.name}-first`);
  for (const id of ids) await time('create', () => side.create(place, id));
  for (const id of ids.slice(0, grown)) await time('resize', () => side.grow(place, id));
  for (const _ of ids) {
    await time('list', () => side.list(place));
    await time('free', () => side.freeBytes(place));
  }
  for (const id of ids) await time('remove', () => side.remove(place, id));
  await side.pause();
  return samples;
}

const burstVolumes = 50;

/** Many volumes at once: each client requests the next one as soon as it has its last. */
export async function takeBurst(clients: readonly [Side, ...Side[]], place: Place): Promise<Sample[]> {
  const [side] = clients;
  const byAll = (work: (client: Side, id: string) => Promise<unknown>) =>
    elapsed(async () => {
      const ids = names(side, burstVolumes).values();
      await Promise.all(
        clients.map(async (client) => {
          for (const id of ids) await work(client, id);
        }),
      );
    });
  side.resume();
  const create = await byAll((client, id) => client.create(place, id));
  const remove = await byAll((client, id) => client.remove(place, id));
  await side.pause();
  return [
    { place, operation: 'create 50', side: side.name, elapsedMs: create },
    { place, operation: 'remove 50', side: side.name, elapsedMs: remove },
  ];
}

function names(side: Side, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${side.name}-${index}`);
}

async function elapsed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

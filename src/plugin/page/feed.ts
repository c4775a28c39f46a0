import type { Clock, Timer } from '../../base/clock.ts';
import { Listeners } from '../../base/listeners.ts';
import { type PoolRow, poolRows } from '../nodes.ts';
import { orphansOf } from '../orphans.ts';
import { unsortedVolumeRows } from '../volumes.ts';
import { History } from './history.ts';
import type { LiveCluster } from './live-cluster.ts';
import { type Message, type TableName, tableNames, toJson } from './model.ts';
import { type Input, isUnknown, poolKey, type Seen, summaryOf, tables } from './tables.ts';
import { type Explain, Explanations } from './waiting.ts';

/** A burst of changes is one look. */
const gatherMs = 100;
/** A look at a large cluster takes long: it may take at most a fifth of the time. */
const restFactor = 4;
/** Some rows change as time passes: a new volume without a claim becomes an orphan. */
const refreshMs = 60_000;
/** So many that a browser applies a line within a frame. */
const rowsPerLine = 500;

const everything: ReadonlySet<Input> = new Set([...tables.orphans.dependsOn, 'classes', 'moves']);

/** The rows of the page as lines of JSON: all of them for a new reader, then only what has changed. */
export class Feed {
  readonly #cluster: LiveCluster;
  readonly #clock: Clock;
  readonly #lines = new Listeners<string>();
  readonly #texts = new Map<TableName, ReadonlyMap<string, string>>();
  #summary = '';
  #failures = '';
  readonly history = new History();
  readonly #explanations: Explanations;
  readonly #dirty = new Set<Input>();
  #next: Timer | undefined;
  #refresh: Timer | undefined;
  #restUntilMs = 0;
  #isReady = false;

  constructor(cluster: LiveCluster, clock: Clock, explain: Explain) {
    this.#cluster = cluster;
    this.#clock = clock;
    this.#explanations = new Explanations(explain, clock, () => this.changed('explanations'));
  }

  /** Call it once each resource was read, or could not be. */
  start(): void {
    this.#isReady = true;
    this.#look(() => true);
    this.#send({ kind: 'ready' });
    this.#refreshLater();
  }

  stop(): void {
    this.#explanations.stop();
    this.#next?.cancel();
    this.#refresh?.cancel();
  }

  /** Everything that is known, then changes. Returns a function that unsubscribes. */
  subscribe(send: (line: string) => void): () => void {
    for (const line of [this.#failures, this.#summary]) if (line) send(line);
    for (const name of tableNames) for (const line of linesOf(name, this.#texts.get(name) ?? new Map(), [])) send(line);
    if (this.#isReady) send(lineOf({ kind: 'ready' }));
    return this.#lines.add(send);
  }

  changed(what: Input): void {
    this.#dirty.add(what);
    if (!this.#isReady || this.#next) return;
    const delayMs = Math.max(gatherMs, this.#restUntilMs - this.#clock.now());
    this.#next = this.#clock.setTimer(() => {
      this.#next = undefined;
      const dirty = new Set(this.#dirty);
      this.#dirty.clear();
      this.#look((inputs) => [...dirty].some((each) => inputs.has(each)));
    }, delayMs);
  }

  failed(): void {
    const line = lineOf({ kind: 'failures', failures: this.#cluster.failures() });
    if (line === this.#failures) return;
    this.#failures = line;
    this.#lines.notify(line);
    for (const what of everything) this.changed(what); // what can be read decides what is known
  }

  #refreshLater(): void {
    this.#refresh = this.#clock.setTimer(() => {
      for (const what of ['volumes', 'reports'] as const) this.changed(what);
      this.#refreshLater();
    }, refreshMs);
  }

  #look(isAffected: (inputs: ReadonlySet<Input>) => boolean): void {
    const nowMs = this.#clock.now();
    // Anything may be the reason for a wait, and end it.
    if (isAffected(everything)) this.#explanations.changed(this.#cluster.waiting());
    const facts = this.#cluster.facts();
    const seen: Seen = {
      facts,
      volumes: once(() => unsortedVolumeRows(facts)),
      orphans: once(() => orphansOf(facts, nowMs)),
      moves: this.#cluster.moves(),
      waiting: this.#explanations.rows(),
      hasReports: !this.#cluster.isAbsent('reports'),
      unread: this.#cluster.unread(),
      history: this.history,
      nowMs,
    };
    if (isAffected(tables.pools.dependsOn)) this.#record(poolRows(seen.facts.nodes), nowMs);
    if (isAffected(tables.orphans.dependsOn)) {
      const line = lineOf({ kind: 'summary', summary: summaryOf(seen) });
      if (line !== this.#summary) this.#lines.notify(line);
      this.#summary = line;
    }
    for (const name of tableNames) if (isAffected(tables[name].dependsOn)) this.#update(name, seen);
    this.#restUntilMs = this.#clock.now() + (this.#clock.now() - nowMs) * restFactor;
  }

  /** One sample for each pool that has changed. */
  #record(pools: readonly PoolRow[], atMs: number): void {
    for (const { node, deviceClass, usedBytes, sizeBytes, metadataPercent } of pools) {
      if (usedBytes === undefined || sizeBytes === undefined) continue;
      const pool = poolKey(node, deviceClass);
      const sample = {
        ...{ atMs, usedBytes: Number(usedBytes), sizeBytes: Number(sizeBytes) },
        ...(metadataPercent !== undefined && { metadataPercent }),
      };
      const last = this.history.of(pool).at(-1);
      if (!last || toJson({ ...last, atMs }) !== toJson(sample)) this.history.add(pool, sample);
    }
  }

  #update(name: TableName, seen: Seen): void {
    const before = this.#texts.get(name) ?? new Map<string, string>();
    const rows = isUnknown(name, seen) ? [] : tables[name].rows(seen);
    const now = new Map(rows.map(([key, row]) => [key, toJson(row)]));
    const changed = new Map([...now].filter(([key, text]) => before.get(key) !== text));
    const gone = [...before.keys()].filter((key) => !now.has(key));
    this.#texts.set(name, now);
    for (const line of linesOf(name, changed, gone)) this.#lines.notify(line);
  }

  #send(message: Message): void {
    this.#lines.notify(lineOf(message));
  }
}

function once<T>(compute: () => T): () => T {
  let known: { readonly value: T } | undefined;
  return () => {
    known ??= { value: compute() };
    return known.value;
  };
}

function lineOf(message: Message): string {
  return `${toJson(message)}\n`;
}

/** `Message`s of rows, whose texts are put together: a row is made JSON once, for all readers. */
function* linesOf(table: TableName, texts: ReadonlyMap<string, string>, gone: readonly string[]): Generator<string> {
  const pairs = [...texts].map(([key, text]) => `${JSON.stringify(key)}:${text}`);
  for (let i = 0; i < pairs.length; i += rowsPerLine) {
    yield `{"kind":"rows","table":"${table}","rows":{${pairs.slice(i, i + rowsPerLine).join(',')}},"gone":[]}\n`;
  }
  if (gone.length > 0) yield `{"kind":"rows","table":"${table}","rows":{},"gone":${JSON.stringify(gone)}}\n`;
}

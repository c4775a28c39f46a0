import type { Failure, Message, Rows, Summary, TableName } from '../../../src/plugin/page/model.ts';

/** Rows by key. After a change, the table is another object with a new version. */
export interface Table<Row> {
  readonly rows: ReadonlyMap<string, Row>;
  readonly version: number;
}

export type Tables = { readonly [Name in TableName]: Table<Rows[Name]> };

/**
 * - `connecting`: nothing has been shown yet.
 * - `live`: what is shown is current.
 * - `lost`: the connection to `kubectl moorage ui` broke; what is shown is as it was, and we retry.
 * - `refused`: the token is missing or of another process; only a new address helps.
 */
export type Connection = 'connecting' | 'live' | 'lost' | 'refused';

export interface State {
  readonly connection: Connection;
  readonly cluster: string;
  readonly version: string;
  readonly summary: Summary | undefined;
  readonly failures: readonly Failure[];
  readonly tables: Tables;
}

type Incoming = { [Name in TableName]: Map<string, Rows[Name]> };

const empty = () => ({ rows: new Map(), version: 0 });

/** Everything that the server has sent. Listeners are called at most once per frame. */
export class Store {
  #state: State = {
    connection: 'connecting',
    cluster: '',
    version: '',
    summary: undefined,
    failures: [],
    tables: { waiting: empty(), pools: empty(), volumes: empty(), moves: empty(), orphans: empty() },
  };
  readonly #listeners = new Set<() => void>();
  /** What a new connection has sent before it was complete: until then, the old rows are shown. */
  #incoming: Incoming | undefined;
  #isScheduled = false;

  get state(): State {
    return this.#state;
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  connection(connection: Connection): void {
    this.#set({ connection });
  }

  /** A new connection begins: it sends everything. */
  begin(): void {
    this.#incoming = { waiting: new Map(), pools: new Map(), volumes: new Map(), moves: new Map(), orphans: new Map() };
  }

  apply(message: Message): void {
    switch (message.kind) {
      case 'cluster':
        return this.#set({ cluster: message.name, version: message.version });
      case 'summary':
        return this.#set({ summary: message.summary });
      case 'failures':
        return this.#set({ failures: message.failures });
      case 'rows':
        return this.#rows(message);
      case 'ready':
        return this.#ready();
    }
  }

  #rows({ table, rows, gone }: Extract<Message, { kind: 'rows' }>): void {
    const known = this.#state.tables[table];
    // The map itself is changed: copying tens of thousands of rows for each change would take longer than a frame.
    const target = (this.#incoming ? this.#incoming[table] : known.rows) as Map<string, unknown>;
    for (const [key, row] of Object.entries(rows)) target.set(key, row);
    for (const key of gone) target.delete(key);
    if (this.#incoming) return;
    this.#set({ tables: { ...this.#state.tables, [table]: { ...known, version: known.version + 1 } } });
  }

  #ready(): void {
    const incoming = this.#incoming;
    if (!incoming) return;
    this.#incoming = undefined;
    const { tables } = this.#state;
    const complete = Object.entries(incoming).map(([name, rows]) => [
      name,
      { rows, version: tables[name as TableName].version + 1 },
    ]);
    this.#set({ connection: 'live', tables: Object.fromEntries(complete) });
  }

  #set(change: Partial<State>): void {
    this.#state = { ...this.#state, ...change };
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    requestAnimationFrame(() => {
      this.#isScheduled = false;
      for (const listener of this.#listeners) listener();
    });
  }
}

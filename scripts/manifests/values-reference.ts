import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';

const chart = join(import.meta.dirname, '..', '..', 'deploy', 'helm', 'moorage');

interface Schema {
  readonly description?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
}

interface Row {
  readonly path: string;
  readonly schema: Schema;
  readonly default: unknown;
}

/** docs/values.md: every value of the chart, from its schema, with its default. */
export async function valuesReference(): Promise<string> {
  const schema = JSON.parse(await readFile(join(chart, 'values.schema.json'), 'utf8')) as Schema;
  const values: unknown = parse(await readFile(join(chart, 'values.yaml'), 'utf8'));
  const rows = rowsOf('', schema, values).map(
    (row) => `| \`${row.path}\` | ${typeOf(row.schema)} | ${shown(row.default)} | ${row.schema.description ?? ''} |`,
  );
  return `# Values of the chart

Generated from \`deploy/helm/moorage/values.schema.json\` by \`npm run manifests\`. The chart rejects values that are not listed here.
Values that TopoLVM's chart also has mean the same there.

| value | type | default | meaning |
|---|---|---|---|
${rows.join('\n')}
`;
}

function rowsOf(path: string, schema: Schema, value: unknown): Row[] {
  const row = schema.description === undefined ? [] : [{ path, schema, default: value }];
  const at = (key: string) => (value as Readonly<Record<string, unknown>> | undefined)?.[key];
  const inside = Object.entries(schema.properties ?? {}).flatMap(([key, part]) =>
    rowsOf(path ? `${path}.${key}` : key, part, at(key)),
  );
  const [first] = Array.isArray(value) ? (value as unknown[]) : [];
  const items = schema.items?.properties ? rowsOf(`${path}[]`, schema.items, first) : [];
  return [...row, ...inside, ...items];
}

function typeOf({ type, enum: choices }: Schema): string {
  return choices?.join(', ') ?? (typeof type === 'string' ? type : (type ?? []).join(' or '));
}

function shown(value: unknown): string {
  return value === undefined || value === '' ? '' : `\`${JSON.stringify(value)}\``;
}

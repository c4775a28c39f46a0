import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { ensureHelm } from '../../worlds/cluster/binaries.ts';
import { execute } from '../../worlds/host/processes.ts';

const charts = join(import.meta.dirname, '..', '..', 'deploy', 'helm');
export type ChartName = 'moorage' | 'local-pv' | 'local-volumes';
export const dirOf = (chart: ChartName) => join(charts, chart);
export const chartDir = dirOf('moorage');
export const namespace = 'moorage-system';

/** An object of a manifest. */
export interface Rendered {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly annotations?: Readonly<Record<string, string>> };
  readonly [field: string]: unknown;
}

/** Returns helm's output; an error's message contains helm's error. */
export async function helm(...words: readonly string[]): Promise<string> {
  return (await execute(await ensureHelm(), [...words], { maxBuffer: 16 << 20 })).stdout;
}

/** Values in helm's own notation: `lvmd.managed=false`. */
export type Value = `${string}=${string}`;

export async function renderText(values: readonly Value[] = [], ...words: readonly string[]): Promise<string> {
  return textOf('moorage', values, ...words);
}

/** Of any of the charts. */
export async function textOf(chart: ChartName, values: readonly Value[], ...words: readonly string[]): Promise<string> {
  const set = values.flatMap((value) => ['--set', value]);
  return helm('template', chart, dirOf(chart), '--namespace', namespace, ...set, ...words);
}

export async function render(...values: readonly Value[]): Promise<readonly Rendered[]> {
  return objectsIn(await renderText(values));
}

export function objectsIn(manifest: string): readonly Rendered[] {
  const documents = parseAllDocuments(manifest);
  return documents.map((document) => document.toJS() as Rendered | null).filter((object) => object !== null);
}

export function find(objects: readonly Rendered[], kind: string, name: string): Rendered {
  const found = objects.find((object) => object.kind === kind && object.metadata.name === name);
  if (!found) throw new Error(`the chart renders no ${kind} ${name}`);
  return found;
}

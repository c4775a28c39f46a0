import { readFile } from 'node:fs/promises';
import { parseAllDocuments } from 'yaml';
import { InvalidInput, messageOf } from '../base/errors.ts';
import type { KubeObject } from '../kube/resource.ts';

/** The text of the file that `-f` names; `-` is standard input. */
export async function textOf(file: string): Promise<string> {
  try {
    return await readFile(file === '-' ? '/dev/stdin' : file, 'utf8');
  } catch (error) {
    throw new InvalidInput(`-f ${file}: ${messageOf(error)}`);
  }
}

/** The objects of a file in YAML or JSON; lists are taken apart. */
export function objectsIn(text: string, file: string): readonly KubeObject[] {
  const found = parseAllDocuments(text).flatMap((document) => {
    const [error] = document.errors;
    if (error) throw new InvalidInput(`${file}: ${error.message}`);
    const object = document.toJS() as (KubeObject & { readonly items?: readonly KubeObject[] }) | null;
    return object === null ? [] : (object.items ?? [object]);
  });
  const nameless = found.find((object) => typeof object !== 'object' || !object.kind || !object.metadata?.name);
  if (nameless) throw new InvalidInput(`${file}: each object needs kind and metadata.name`);
  if (found.length === 0) throw new InvalidInput(`${file}: there is no object in it`);
  return found;
}

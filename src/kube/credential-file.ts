import { readFile } from 'node:fs/promises';
import { MoorageError, messageOf } from '../base/errors.ts';

/** We cannot authenticate to the API server, or cannot verify it. */
export class CredentialsUnusable extends MoorageError {
  readonly code = 'FailedPrecondition';
}

export async function readCredential(path: string, what: string): Promise<string> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (cause) {
    throw new CredentialsUnusable(`cannot read ${what}: ${messageOf(cause)}; check the file and its permissions`, {
      cause,
    });
  }
  if (text.trim() === '') throw new CredentialsUnusable(`${what} in ${path} is empty; write it again`);
  return text;
}

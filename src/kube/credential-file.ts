import { readFile } from 'node:fs/promises';
import { MoorageError, messageOf } from '../base/errors.ts';

/** We cannot tell the API server who we are, or cannot be sure who it is. */
export class CredentialsUnusable extends MoorageError {
  readonly code = 'FailedPrecondition';
}

export async function readCredential(path: string, what: string): Promise<string> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (cause) {
    throw new CredentialsUnusable(`cannot read ${what}: ${messageOf(cause)}; check the file and who may read it`, {
      cause,
    });
  }
  if (text.trim() === '') throw new CredentialsUnusable(`${what} in ${path} is empty; write it anew`);
  return text;
}

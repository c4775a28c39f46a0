import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { newRunDir } from '../host/run-dir.ts';

/** The relevant fields of a request; a list or watch of one object by its name counts as a request with that name. */
export interface AuditEntry {
  readonly verb: string;
  readonly requestURI: string;
  readonly userAgent?: string;
  readonly user: { readonly username: string; readonly extra?: Readonly<Record<string, readonly string[]>> };
  readonly objectRef?: {
    readonly apiGroup?: string;
    readonly resource?: string;
    readonly subresource?: string;
    readonly namespace?: string;
    readonly name?: string;
  };
  readonly responseStatus?: { readonly code?: number; readonly message?: string };
}

/** The API server's audit log of all requests of a namespace's ServiceAccounts. */
export class AuditLog {
  readonly apiServerFlags: readonly string[];
  readonly #dir: string;

  private constructor(dir: string) {
    this.#dir = dir;
    this.apiServerFlags = [`--audit-policy-file=${policyIn(dir)}`, `--audit-log-path=${logIn(dir)}`];
  }

  /** Create it before the API server, which reads the flags at its start. */
  static async create(namespace: string): Promise<AuditLog> {
    const dir = await newRunDir('audit');
    const policy = {
      apiVersion: 'audit.k8s.io/v1',
      kind: 'Policy',
      omitStages: ['RequestReceived'],
      rules: [{ level: 'Metadata', userGroups: [`system:serviceaccounts:${namespace}`] }, { level: 'None' }],
    };
    await writeFile(policyIn(dir), stringify(policy));
    return new AuditLog(dir);
  }

  async entries(): Promise<readonly AuditEntry[]> {
    const lines = (await readFile(logIn(this.#dir), 'utf8')).split('\n').slice(0, -1); // the last line may be incomplete
    return lines.map((line) => JSON.parse(line) as AuditEntry);
  }

  async remove(): Promise<void> {
    await rm(this.#dir, { recursive: true });
  }
}

function policyIn(dir: string): string {
  return join(dir, 'policy.yaml');
}

function logIn(dir: string): string {
  return join(dir, 'audit.log');
}

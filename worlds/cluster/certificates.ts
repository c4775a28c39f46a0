import { generateKeyPairSync } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execute } from '../host/processes.ts';

const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '3650'];

export interface Certificate {
  readonly certificate: string;
  readonly key: string;
}

/** The cluster's certificate authority and the files that it issues, all in one directory. */
export class CertificateAuthority {
  readonly dir: string;
  readonly certificate: string;

  constructor(dir: string) {
    this.dir = dir;
    this.certificate = join(dir, 'ca.crt');
  }

  async create(): Promise<void> {
    await mkdir(this.dir, { recursive: true });
    await this.#openssl('ca', '/CN=moorage-test-ca');
  }

  async server(name: string, subject: string, alternatives: readonly string[]): Promise<Certificate> {
    return this.#issue(name, subject, 'serverAuth', [`subjectAltName=${alternatives.join(',')}`]);
  }

  async client(name: string, subject: string): Promise<Certificate> {
    return this.#issue(name, subject, 'clientAuth', []);
  }

  /** A self-contained kubeconfig file for the user in the subject (CN is the name, O the group). */
  async kubeconfig(name: string, subject: string, server: string): Promise<string> {
    const { certificate, key } = await this.client(name, subject);
    const base64 = async (file: string) => (await readFile(file)).toString('base64');
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'moorage',
      contexts: [{ name: 'moorage', context: { cluster: 'moorage', user: name } }],
      clusters: [
        { name: 'moorage', cluster: { server, 'certificate-authority-data': await base64(this.certificate) } },
      ],
      users: [
        {
          name,
          user: { 'client-certificate-data': await base64(certificate), 'client-key-data': await base64(key) },
        },
      ],
    };
    const file = join(this.dir, `${name}.kubeconfig`);
    await writeFile(file, JSON.stringify(config, undefined, 2), { mode: 0o600 });
    return file;
  }

  /** The keys that the API server uses to sign and verify ServiceAccount tokens. */
  async serviceAccountKeys(): Promise<{ publicKey: string; privateKey: string }> {
    const pair = generateKeyPairSync('ec', {
      namedCurve: 'P-256',
      publicKeyEncoding: { type: 'spki', format: 'pem' },
      privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    });
    const files = { publicKey: join(this.dir, 'sa.pub'), privateKey: join(this.dir, 'sa.key') };
    await writeFile(files.publicKey, pair.publicKey);
    await writeFile(files.privateKey, pair.privateKey, { mode: 0o600 });
    return files;
  }

  async #issue(name: string, subject: string, usage: string, extensions: readonly string[]): Promise<Certificate> {
    const all = ['keyUsage=critical,digitalSignature', `extendedKeyUsage=${usage}`, ...extensions];
    return this.#openssl(name, subject, [
      ...['-CA', this.certificate, '-CAkey', join(this.dir, 'ca.key')],
      ...all.flatMap((extension) => ['-addext', extension]),
    ]);
  }

  async #openssl(name: string, subject: string, more: readonly string[] = []): Promise<Certificate> {
    const files = { certificate: join(this.dir, `${name}.crt`), key: join(this.dir, `${name}.key`) };
    await execute('openssl', [
      ...['req', '-x509', ...newKey, '-subj', subject, '-out', files.certificate, '-keyout', files.key],
      ...more,
    ]);
    return files;
  }
}

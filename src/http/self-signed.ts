import { KeyObject, webcrypto, X509Certificate } from 'node:crypto';
import 'reflect-metadata'; // the next one needs it to be there first
import {
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  X509CertificateGenerator,
} from '@peculiar/x509';

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };

/** Clocks differ a little. */
const skewMs = 60 * 60_000;

/** A certificate and its key, both in PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

export interface SelfSigned {
  /** The server that uses it. */
  readonly commonName: string;
  /** The DNS name that clients use. */
  readonly dnsName: string;
  readonly nowMs: number;
  readonly validForMs: number;
  /** Whether a client uses it too. */
  readonly isForClients?: boolean;
}

/**
 * A new key with a self-signed certificate that can sign no other.
 * Import this file only when a certificate is created: its library takes memory and time to load.
 */
export async function selfSigned(wanted: SelfSigned): Promise<Certificate> {
  const { commonName, dnsName, nowMs, validForMs, isForClients = false } = wanted;
  const usages = [ExtendedKeyUsage.serverAuth, ...(isForClients ? [ExtendedKeyUsage.clientAuth] : [])];
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const certificate = await X509CertificateGenerator.createSelfSigned(
    {
      name: [{ CN: [commonName] }],
      notBefore: new Date(nowMs - skewMs),
      notAfter: new Date(nowMs + validForMs),
      signingAlgorithm: algorithm,
      keys,
      extensions: [
        new BasicConstraintsExtension(false, undefined, true),
        new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
        new ExtendedKeyUsageExtension(usages),
        new SubjectAlternativeNameExtension([{ type: 'dns', value: dnsName }]),
      ],
    },
    webcrypto,
  );
  return {
    cert: new X509Certificate(Buffer.from(certificate.rawData)).toString(),
    key: KeyObject.from(keys.privateKey).export({ type: 'pkcs8', format: 'pem' }),
  };
}

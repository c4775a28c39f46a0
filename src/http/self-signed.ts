import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import {
  bitString,
  integer,
  objectIdentifier,
  octetString,
  sequence,
  set,
  tagged,
  time,
  utf8String,
  yes,
} from './der.ts';

const identifiers = {
  ecdsaWithSha256: '1.2.840.10045.4.3.2',
  commonName: '2.5.4.3',
  keyUsage: '2.5.29.15',
  subjectAlternativeName: '2.5.29.17',
  basicConstraints: '2.5.29.19',
  extendedKeyUsage: '2.5.29.37',
  serverAuthentication: '1.3.6.1.5.5.7.3.1',
} as const;

/** Clocks differ a little. */
const skewMs = 60 * 60_000;

/** What a server is known by, and the key that proves it; both in PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

export interface SelfSigned {
  /** Who serves with it. */
  readonly commonName: string;
  /** What it is called by. */
  readonly dnsName: string;
  readonly nowMs: number;
  readonly validForMs: number;
}

/** A new key with a certificate (X.509, RFC 5280) that vouches for itself, and for nothing else: no other is signed with it. */
export function selfSigned({ commonName, dnsName, nowMs, validForMs }: SelfSigned): Certificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const algorithm = sequence(objectIdentifier(identifiers.ecdsaWithSha256));
  const name = sequence(set(sequence(objectIdentifier(identifiers.commonName), utf8String(commonName))));
  const serial = randomBytes(16);
  serial.writeUInt8((serial.readUInt8(0) & 0x7f) | 0x40, 0); // positive, and never shorter
  const toBeSigned = sequence(
    tagged(0, integer(Buffer.of(2)), 'constructed'), // version 3
    integer(serial),
    algorithm,
    name,
    sequence(time(nowMs - skewMs), time(nowMs + validForMs)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    tagged(3, sequence(...extensions(dnsName)), 'constructed'),
  );
  const certificate = sequence(toBeSigned, algorithm, bitString(sign('sha256', toBeSigned, privateKey)));
  return {
    cert: pem('CERTIFICATE', certificate),
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
  };
}

function extensions(dnsName: string): Buffer[] {
  const { basicConstraints, keyUsage, extendedKeyUsage, subjectAlternativeName, serverAuthentication } = identifiers;
  const critical = (identifier: string, value: Buffer) =>
    sequence(objectIdentifier(identifier), yes(), octetString(value));
  const plain = (identifier: string, value: Buffer) => sequence(objectIdentifier(identifier), octetString(value));
  return [
    critical(basicConstraints, sequence()), // no authority
    critical(keyUsage, Buffer.of(0x03, 0x02, 0x07, 0x80)), // the first of its bits: digital signature
    plain(extendedKeyUsage, sequence(objectIdentifier(serverAuthentication))),
    plain(subjectAlternativeName, sequence(tagged(2, Buffer.from(dnsName), 'primitive'))),
  ];
}

function pem(label: string, der: Buffer): string {
  const lines = der.toString('base64').match(/.{1,64}/g) ?? [];
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`;
}

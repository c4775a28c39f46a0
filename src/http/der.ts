/** Just enough of ASN.1's distinguished encoding (X.690) to write a certificate. */

const tags = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  objectIdentifier: 0x06,
  utf8String: 0x0c,
  utcTime: 0x17,
  sequence: 0x30,
  set: 0x31,
} as const;

export function sequence(...parts: readonly Buffer[]): Buffer {
  return encode(tags.sequence, Buffer.concat(parts));
}

export function set(...parts: readonly Buffer[]): Buffer {
  return encode(tags.set, Buffer.concat(parts));
}

/** Of bytes that begin with a bit of 0, so that the number is positive. */
export function integer(bytes: Buffer): Buffer {
  return encode(tags.integer, bytes);
}

export function bitString(bytes: Buffer): Buffer {
  return encode(tags.bitString, Buffer.concat([Buffer.of(0), bytes])); // no bit of the last byte is left over
}

export function octetString(bytes: Buffer): Buffer {
  return encode(tags.octetString, bytes);
}

export function utf8String(text: string): Buffer {
  return encode(tags.utf8String, Buffer.from(text));
}

export function yes(): Buffer {
  return encode(tags.boolean, Buffer.of(0xff));
}

/** In words of dots: `1.2.840.10045.4.3.2`. */
export function objectIdentifier(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number);
  return encode(tags.objectIdentifier, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]));
}

/** With two digits for the year, as certificates have to be written until 2049. */
export function time(epochMs: number): Buffer {
  const digits = new Date(epochMs).toISOString().replace(/\D/g, '');
  return encode(tags.utcTime, Buffer.from(`${digits.slice(2, 14)}Z`));
}

/** A part whose meaning is said by a number of its own: `[number]`. */
export function tagged(number: number, content: Buffer, kind: 'constructed' | 'primitive'): Buffer {
  return encode((kind === 'constructed' ? 0xa0 : 0x80) | number, content);
}

function encode(tag: number, content: Buffer): Buffer {
  return Buffer.concat([Buffer.of(tag), length(content.length), content]);
}

function length(bytes: number): Buffer {
  if (bytes < 0x80) return Buffer.of(bytes);
  if (bytes < 0x100) return Buffer.of(0x81, bytes);
  return Buffer.of(0x82, bytes >> 8, bytes & 0xff);
}

function base128(number: number): number[] {
  const digits = [number & 0x7f];
  for (let rest = number >> 7; rest > 0; rest >>= 7) digits.unshift((rest & 0x7f) | 0x80);
  return digits;
}

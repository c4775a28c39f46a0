import { MoorageError } from '../base/errors.ts';

/** A byte that says whether the message is compressed, then four with its length. */
const prefixBytes = 5;

/** A message as gRPC sends it. */
export function frameOf(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(prefixBytes + message.length);
  frame[0] = 0;
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, prefixBytes);
  return frame;
}

/** Finds the messages in a stream of bytes, however it was cut into chunks. */
export class FrameReader {
  readonly #maxMessageBytes: number;
  #parts: Buffer[] = [];
  #partsBytes = 0;
  #wantedBytes = prefixBytes;

  constructor(maxMessageBytes: number) {
    this.#maxMessageBytes = maxMessageBytes;
  }

  /** The messages that this chunk completes. */
  push(chunk: Buffer): Uint8Array[] {
    this.#parts.push(chunk);
    this.#partsBytes += chunk.length;
    if (this.#partsBytes < this.#wantedBytes) return [];
    const messages: Uint8Array[] = [];
    let rest = this.#parts.length === 1 ? chunk : Buffer.concat(this.#parts);
    for (;;) {
      this.#wantedBytes = prefixBytes + (rest.length < prefixBytes ? 0 : this.#lengthIn(rest));
      if (rest.length < this.#wantedBytes) break;
      messages.push(rest.subarray(prefixBytes, this.#wantedBytes));
      rest = rest.subarray(this.#wantedBytes);
    }
    this.#parts = rest.length > 0 ? [rest] : [];
    this.#partsBytes = rest.length;
    return messages;
  }

  /** Whether the stream may end here: not within a message. */
  get complete(): boolean {
    return this.#partsBytes === 0;
  }

  #lengthIn(frame: Buffer): number {
    if (frame[0] !== 0) throw new MessageCompressed();
    const bytes = frame.readUInt32BE(1);
    if (bytes > this.#maxMessageBytes) throw new MessageTooLong(bytes, this.#maxMessageBytes);
    return bytes;
  }
}

export class MessageTooLong extends MoorageError {
  readonly code = 'ResourceExhausted';

  constructor(bytes: number, maxBytes: number) {
    super(`a message of ${bytes} bytes is longer than the ${maxBytes} that are taken; send less at a time`);
  }
}

export class MessageCompressed extends MoorageError {
  readonly code = 'Unimplemented';

  constructor() {
    super('the message is compressed, which is not understood here; send it as it is');
  }
}

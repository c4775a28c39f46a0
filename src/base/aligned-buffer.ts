/** Alignment of direct reads and writes, in memory and on disk: a multiple of the sector size of any disk. */
export const blockBytes = 4096;

const pageBytes = 65_536;

/** Memory for reads and writes that bypass the page cache, which need it aligned: WebAssembly provides that. */
export function alignedBuffer(bytes: number): Uint8Array<ArrayBuffer> {
  const pages = Math.ceil(bytes / pageBytes);
  return new Uint8Array(new WebAssembly.Memory({ initial: pages, maximum: pages }).buffer, 0, bytes);
}

/** Node.js has it; its types only declare the name. */
declare global {
  namespace WebAssembly {
    const Memory: new (size: {
      readonly initial: number;
      readonly maximum: number;
    }) => { readonly buffer: ArrayBuffer };
  }
}

import { readdir, readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { NodeStorageStatus } from '../../api/node-storage.ts';

export type Swap = NonNullable<NodeStorageStatus['swap']>[number];

/**
 * Where the machine swaps to, on disks: compressed memory (zram) is none. The kernel shows all of it to every process, also
 * in a container. Undefined if the kernel does not say.
 */
export async function swapOf(root: string): Promise<readonly Swap[] | undefined> {
  const table = await textOf(join(root, 'proc/swaps'));
  if (table === undefined) return undefined;
  const places = table.split('\n').slice(1).filter(Boolean).map(placeOf);
  const blocks = join(root, 'sys/class/block');
  const found = await Promise.all(places.map((place) => swapAt(place, blocks)));
  return found.flatMap((swap) => swap ?? []);
}

interface Place {
  readonly device: string;
  readonly isFile: boolean;
}

/** `/dev/dm-0   partition   8388604   0   -2`; spaces in a name are octal. */
function placeOf(line: string): Place {
  const [name = '', type] = line.split(/\s+/);
  const device = name.replaceAll(/\\(\d{3})/g, (_, octal: string) => String.fromCodePoint(Number.parseInt(octal, 8)));
  return { device, isFile: type === 'file' };
}

async function swapAt({ device, isFile }: Place, blocks: string): Promise<Swap | undefined> {
  if (isFile) return { device, protection: 'Unknown' }; // its filesystem is one of the node's, not of the agent's
  const name = basename(device);
  if (name.startsWith('zram') && (await textOf(join(blocks, name, 'backing_dev')))?.trim() === 'none') return undefined;
  return { device, protection: await protectionOf(name, blocks) };
}

/** dm-crypt itself, or anything whose parts are all on it, such as a logical volume. */
async function protectionOf(name: string, blocks: string): Promise<Swap['protection']> {
  const uuid = await textOf(join(blocks, name, 'dm/uuid'));
  if (uuid?.startsWith('CRYPT-')) return 'Encrypted';
  const parts = await readdir(join(blocks, name, 'slaves')).catch(() => []); // a partition has no such directory
  const isDisk = parts.length === 0;
  if (isDisk) return /^(loop|zram)/.test(name) ? 'Unknown' : 'Plain';
  const answers = await Promise.all(parts.map((part) => protectionOf(part, blocks)));
  if (answers.includes('Plain')) return 'Plain';
  return answers.includes('Unknown') ? 'Unknown' : 'Encrypted';
}

async function textOf(path: string): Promise<string | undefined> {
  return readFile(path, 'utf8').catch(() => undefined);
}

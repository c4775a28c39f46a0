import { type FileHandle, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { createTarPacker } from 'modern-tar';
import { systemClock } from '../../base/clock.ts';
import { command } from '../../base/command.ts';
import { InvalidInput } from '../../base/errors.ts';
import { type Flags, flag, path } from '../../base/flags.ts';
import { formatBytes } from '../../base/quantity.ts';
import { withSession } from '../connect.ts';
import { clusterFlags } from '../flags.ts';
import { count } from '../terminal.ts';
import { type BundleFile, bundleFiles } from './collect.ts';

const bundleFlags = {
  output: flag({
    name: 'output',
    short: 'o',
    type: path,
    default: '',
    description: 'File to write, which must not exist; empty for moorage-bundle-TIME.tar.gz in this directory',
  }),
  context: clusterFlags.context,
  kubeconfig: clusterFlags.kubeconfig,
} as const satisfies Flags;

export const bundleCommand = command({
  summary: 'collect what a bug report needs into one archive, without secrets',
  examples: ['kubectl moorage bundle                         # then look through it before you share it'],
  flags: bundleFlags,
  async run(flags, { env, print, signal, version }) {
    const time = new Date(systemClock.now()).toISOString().replaceAll(/[-:]|\..*$/g, '');
    const file = flags.output || `moorage-bundle-${time}.tar.gz`;
    const contents = await withSession(flags, env, ({ client }) =>
      writeBundle(file, bundleFiles(client, version, signal)),
    );
    print(summaryOf(file, contents));
  },
});

interface Content {
  readonly name: string;
  readonly bytes: number;
  readonly text?: string;
}

/** Only the user can read it. One file of the bundle at a time is in memory. */
async function writeBundle(file: string, files: AsyncIterable<BundleFile>): Promise<readonly Content[]> {
  const { readable, controller } = createTarPacker();
  const target = await opened(file);
  const written = pipeline(Readable.fromWeb(readable), createGzip(), target.createWriteStream());
  const contents: Content[] = [];
  const filled = (async () => {
    for await (const { name, text } of files) {
      const bytes = Buffer.from(text);
      const writer = controller.add({ name: `moorage-bundle/${name}`, size: bytes.length, mode: 0o600 }).getWriter();
      await writer.write(bytes);
      await writer.close();
      contents.push({ name, bytes: bytes.length, ...(name === notRead && { text }) });
    }
    controller.finalize();
  })().catch((error: unknown) => {
    controller.error(error);
    throw error;
  });
  await Promise.all([filled, written]);
  return contents;
}

async function opened(file: string): Promise<FileHandle> {
  try {
    return await open(file, 'wx', 0o600);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') throw new InvalidInput(`${file} exists already; pass another --output`);
    if (code === 'ENOENT') throw new InvalidInput(`--output ${file}: there is no folder ${dirname(file)}`);
    throw error;
  }
}

const notRead = 'not-read.txt';

function summaryOf(file: string, contents: readonly Content[]): string {
  const folders = Map.groupBy(contents, ({ name }) => (name.includes('/') ? (name.split('/')[0] ?? '') : ''));
  const lines = [...folders].map(([folder, all]) => {
    const size = formatBytes(BigInt(all.reduce((sum, { bytes }) => sum + bytes, 0)));
    const names = folder === '' ? all.map(({ name }) => name).join(', ') : `${folder}/: ${count(all.length, 'file')}`;
    return `  ${names}, ${size}`;
  });
  const missing = contents.find(({ name }) => name === notRead)?.text ?? '';
  return [
    `${file} contains:`,
    ...lines,
    ...(missing ? ['not read:', ...missing.split('\n').map((line) => `  ${line}`)] : []),
    'No Secret was read. Environment variables, programs of your pods, and annotations of others were left out or redacted;',
    'names of nodes, namespaces, claims and images are in it. Look through it before you share it.',
  ].join('\n');
}

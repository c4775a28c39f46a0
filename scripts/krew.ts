// npm run krew [-- URL]: builds the kubectl plugin as one executable for each architecture, and the manifest for krew, which
// downloads them from the URL.
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { stringify } from 'yaml';
import manifest from '../package.json' with { type: 'json' };
import lock from '../package-lock.json' with { type: 'json' };
import { messageOf } from '../src/base/errors.ts';
import { cached, keyOf } from '../worlds/host/cache.ts';
import { downloadEnvironment } from '../worlds/host/environment.ts';
import { execute } from '../worlds/host/processes.ts';
import { stage } from '../worlds/host/progress.ts';
import { tar } from './image/tar.ts';

const home = join(import.meta.dirname, '..');
const dist = join(home, 'dist', 'krew');
const homepage = 'https://moorage.dev';
const [url = `${homepage}/releases/v${manifest.version}`] = process.argv.slice(2);
/** The names of Node's packages, and those of Go and krew. */
const architectures = { x64: 'amd64', arm64: 'arm64' } as const;
type Architecture = keyof typeof architectures;

try {
  await stage('Bundle', () => execute(process.execPath, ['scripts/build.ts'], { cwd: home }));
  await mkdir(dist, { recursive: true });
  const platforms = [];
  for (const architecture of ['x64', 'arm64'] as const) {
    platforms.push(await stage(`kubectl-moorage for ${architectures[architecture]}`, () => platform(architecture)));
  }
  await writeFile(join(dist, 'moorage.yaml'), stringify(krewManifest(platforms)));
  console.log(join(dist, 'moorage.yaml'));
} catch (error) {
  console.error(`npm run krew: ${messageOf(error)}`);
  process.exitCode = 1;
}

/** The archive of one architecture; returns its entry in the manifest. */
async function platform(architecture: Architecture): Promise<object> {
  const arch = architectures[architecture];
  const archive = `kubectl-moorage_linux_${arch}.tar.gz`;
  const file = (path: string, content: Buffer, mode: number) => ({ path, kind: 'file', content, mode }) as const;
  const entries = [
    file('kubectl-moorage', await executable(architecture), 0o755),
    file('kubectl_complete-moorage', await readFile(join(home, 'bin', 'kubectl_complete-moorage')), 0o755),
    file('LICENSE', await readFile(join(home, 'LICENSE')), 0o644),
  ];
  const content = gzipSync(tar(entries, 0));
  await writeFile(join(dist, archive), content);
  return {
    selector: { matchLabels: { os: 'linux', arch } },
    uri: `${url}/${archive}`,
    sha256: createHash('sha256').update(content).digest('hex'),
    bin: 'kubectl-moorage',
  };
}

/** Node with the plugin inside. Without a code cache, which only the architecture that runs it could create. */
async function executable(architecture: Architecture): Promise<Buffer> {
  const dir = await mkdtemp(join(tmpdir(), 'kubectl-moorage-'));
  const output = join(dir, 'kubectl-moorage');
  const config = {
    main: join(home, 'dist', 'kubectl-moorage.cjs'),
    output,
    executable: await nodeOf(architecture),
    disableExperimentalSEAWarning: true,
    useCodeCache: false,
  };
  await writeFile(join(dir, 'sea.json'), JSON.stringify(config));
  try {
    await execute(process.execPath, ['--build-sea', join(dir, 'sea.json')]);
    return await readFile(output);
  } finally {
    await rm(dir, { recursive: true });
  }
}

/** npm installs only Node for this machine; the others are fetched, and must be what the lock file names. */
async function nodeOf(architecture: Architecture): Promise<string> {
  const name = `node-linux-${architecture}` as const;
  if (process.arch === architecture) return join(home, 'node_modules', name, 'bin', 'node');
  const { version, integrity } = lock.packages[`node_modules/${name}`];
  const dir = await cached(`${name}-${await keyOf([], [integrity])}`, async (draft) => {
    const { stdout } = await execute('npm', ['pack', '--silent', `${name}@${version}`], {
      cwd: draft,
      env: downloadEnvironment(),
    });
    const file = join(draft, stdout.trim());
    const found = `sha512-${createHash('sha512')
      .update(await readFile(file))
      .digest('base64')}`;
    if (found !== integrity) throw new Error(`${name} ${version} is not the package that package-lock.json names`);
    await execute('tar', ['--extract', '--strip-components=1', `--file=${file}`], { cwd: draft });
    await rm(file);
  });
  return join(dir, 'bin', 'node');
}

function krewManifest(platforms: readonly object[]): object {
  return {
    apiVersion: 'krew.googlecontainertools.github.com/v1alpha2',
    kind: 'Plugin',
    metadata: { name: 'moorage' },
    spec: {
      version: `v${manifest.version}`,
      homepage,
      shortDescription: 'See, recover and remove local LVM volumes',
      description:
        'Shows nodes, volumes and problems of Moorage and TopoLVM, and what to do about them. ' +
        'Recovers volumes after a claim, a node or a cluster was lost.',
      platforms,
    },
  };
}

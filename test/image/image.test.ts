import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { arch, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { zstdDecompressSync } from 'node:zlib';
import { buildImage } from '../../scripts/image/build-image.ts';
import { programs } from '../../scripts/image/contents.ts';
import { filesystems } from '../../src/filesystem/filesystem.ts';
import { executeSync } from '../../worlds/host/processes.ts';

const home = join(import.meta.dirname, '..', '..');
const dir = await mkdtemp(join(tmpdir(), 'moorage-image-'));
after(() => rm(dir, { recursive: true }));
const image = await buildImage(join(dir, 'first'), () => {});
const root = await unpack(image.archive, join(dir, 'layout'), join(dir, 'root'));

/** Runs a command with the image as its root. */
function inside(...command: readonly string[]): string {
  return executeSync('unshare', ['--map-root-user', '--pid', '--fork', '--mount-proc', '--root', root, ...command], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: '/usr/bin:/usr/sbin' },
  });
}

test('the same inputs give the same image', async () => {
  const again = await buildImage(join(dir, 'second'), () => {});
  assert.equal(again.digest, image.digest);
  assert.deepEqual(readFileSync(again.archive), readFileSync(image.archive));
  assert.deepEqual(readFileSync(again.sbom), readFileSync(image.sbom));
});

test('every program finds its libraries', () => {
  for (const program of [...Object.values(programs).flat(), 'node']) {
    const found = inside('sh', '-c', `LD_TRACE_LOADED_OBJECTS=1 exec ${program}`);
    assert.match(found, /libc\.so\.6 =>/, program);
    assert.doesNotMatch(found, /not found/, program);
  }
});

test('each filesystem can be created, and is recognised', () => {
  for (const { name } of filesystems) {
    const file = join(root, 'tmp', name);
    writeFileSync(file, '');
    truncateSync(file, 512 * 2 ** 20);
    inside(`mkfs.${name}`, '-q', `/tmp/${name}`);
    assert.match(inside('blkid', '--probe', `/tmp/${name}`), new RegExp(`TYPE="${name}"`));
  }
});

test('Moorage starts under each of its names', () => {
  assert.match(inside('moorage', '--help'), /controller/);
  assert.match(inside('topolvm-node', '--help'), /^Usage: moorage node /);
  assert.match(inside('topolvm-controller', '--help'), /^Usage: moorage controller /);
  assert.match(inside('lvmd', '--help'), /^Usage: moorage lvmd /);
  assert.match(inside('node', '/usr/lib/moorage/kubectl-moorage', '--help'), /^Usage: kubectl moorage /);
});

test('the image has no setuid programs and no package manager', () => {
  const files = readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const gaining = files.filter((entry) => (statSync(join(entry.parentPath, entry.name)).mode & 0o6000) !== 0);
  assert.deepEqual(gaining, []);
  const names = new Set(files.map(({ name }) => name));
  for (const unwanted of ['apt-get', 'dpkg', 'perl', 'python3', 'bash', 'npm'])
    assert.ok(!names.has(unwanted), unwanted);
});

test('the SBOM lists every Debian package, Node, and bundled packages, but no development tool', () => {
  const sbom = JSON.parse(readFileSync(image.sbom, 'utf8')) as Sbom;
  const listed = sbom.packages.map(({ externalRefs: [{ referenceLocator }] }) => referenceLocator);
  const present = readdirSync(join(root, 'var/lib/dpkg/status.d'));
  assert.ok(present.includes('lvm2') && present.includes('libc6'));
  assert.equal(listed.filter((url) => url.startsWith('pkg:deb/')).length, present.length);
  const has = (what: string) => listed.some((url) => url.startsWith(what));
  assert.ok(
    has('pkg:generic/node@26') && has('pkg:npm/yaml@') && has('pkg:npm/%40bufbuild/protobuf@'),
    listed.join('\n'),
  );
  assert.ok(!has('pkg:npm/esbuild@') && !has('pkg:npm/typescript@'));
});

test('Node comes from a package that the lock file pins by digest, not from a download script', () => {
  const { packages } = JSON.parse(readFileSync(join(home, 'package-lock.json'), 'utf8')) as { packages: Locked };
  const dir = `node_modules/node-linux-${arch()}`;
  const { version, integrity = '', hasInstallScript } = packages[dir] ?? {};
  assert.match(integrity, /^sha512-/);
  assert.equal(inside('node', '--version').trim(), `v${version}`);
  assert.ok(readFileSync(join(root, 'usr/bin/node')).equals(readFileSync(join(home, dir, 'bin/node'))));
  const versions = ['x64', 'arm64'].map((kind) => packages[`node_modules/node-linux-${kind}`]?.version);
  assert.deepEqual(versions, [version, version], 'all architectures have the same version');
  assert.equal(hasInstallScript, undefined);
});

test('the image contains the licences of all bundled packages and of the protocols that Moorage implements', () => {
  const doc = join(root, 'usr/share/doc/moorage');
  assert.match(readFileSync(join(doc, 'copyright'), 'utf8'), /Apache License/);
  const { packages } = JSON.parse(readFileSync(image.sbom, 'utf8')) as Sbom;
  const bundled = packages.filter(({ externalRefs: [{ referenceLocator }] }) =>
    referenceLocator.startsWith('pkg:npm/'),
  );
  assert.ok(bundled.length > 0);
  for (const { name } of bundled) {
    assert.match(
      readFileSync(join(doc, 'licenses', name.replace('/', '+')), 'utf8'),
      /Copyright|Permission to use/,
      name,
    );
  }
  const names = new Set(bundled.map(({ name }) => name)); // a package may be there in two versions
  assert.equal(readdirSync(join(doc, 'licenses')).length, names.size);

  const notice = readFileSync(join(doc, 'NOTICE'), 'utf8');
  const protocols = readdirSync(join(home, 'proto'), { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.proto') && !file.startsWith('moorage/'),
  );
  assert.ok(protocols.length > 3);
  for (const protocol of protocols) assert.ok(notice.includes(`proto/${protocol}`), protocol);
});

test('the Containerfile installs the same packages', () => {
  const containerfile = readFileSync(join(home, 'deploy/image/Containerfile'), 'utf8');
  const words = containerfile.slice(containerfile.lastIndexOf('FROM')).split(/\s+/);
  for (const name of Object.keys(programs)) assert.ok(words.includes(name), name);
});

interface Sbom {
  readonly packages: readonly {
    readonly name: string;
    readonly externalRefs: [{ readonly referenceLocator: string }];
  }[];
}

type Locked = Readonly<Record<string, { version?: string; integrity?: string; hasInstallScript?: boolean }>>;

interface Manifest {
  readonly layers: readonly { readonly digest: string }[];
}

/** Unpacks it as a container runtime would: from the layout's index, layer by layer. */
async function unpack(archive: string, layout: string, into: string): Promise<string> {
  await Promise.all([mkdir(layout), mkdir(into)]);
  executeSync('tar', ['-C', layout, '-xf', archive]);
  const blob = (digest: string) => readFileSync(join(layout, 'blobs', digest.replace(':', '/')));
  const index = JSON.parse(readFileSync(join(layout, 'index.json'), 'utf8')) as { manifests: [{ digest: string }] };
  const manifest = JSON.parse(blob(index.manifests[0].digest).toString()) as Manifest;
  for (const { digest } of manifest.layers) {
    executeSync('tar', ['-C', into, '-x', '--no-same-owner', '-f', '-'], { input: zstdDecompressSync(blob(digest)) });
  }
  return into;
}

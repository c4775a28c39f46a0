import { copyFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { cached, keyOf } from '../host/cache.ts';
import { downloadEnvironment } from '../host/environment.ts';
import { execute } from '../host/processes.ts';
import { stage } from '../host/progress.ts';
import { type GoProgram, goBuild, moduleDir } from './go-build.ts';

const modules = join(import.meta.dirname, 'binaries');

export const kubernetesVersion = 'v1.36.3';

const kubernetesPrograms = [
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kubelet',
  'kubectl',
] as const;

/** One program, from a module of ours that pins its dependencies. */
interface Source {
  readonly version: string;
  /** A directory below `binaries`. */
  readonly module: string;
  /** Its main package, relative to the module. */
  readonly package: string;
}

const csi = 'github.com/kubernetes-csi';
export const sidecars = {
  'csi-provisioner': {
    version: 'v5.3.0',
    module: 'csi-provisioner',
    package: `${csi}/external-provisioner/v5/cmd/csi-provisioner`,
  },
  'csi-resizer': {
    version: 'v1.14.0',
    module: 'csi-sidecars',
    package: `${csi}/external-resizer/cmd/csi-resizer`,
  },
  'csi-snapshotter': {
    version: 'v8.6.0',
    module: 'csi-sidecars',
    package: `${csi}/external-snapshotter/v8/cmd/csi-snapshotter`,
  },
  'snapshot-controller': {
    version: 'v8.6.0',
    module: 'csi-sidecars',
    package: `${csi}/external-snapshotter/v8/cmd/snapshot-controller`,
  },
} as const satisfies Record<string, Source>;

const helm: Source = { version: 'v4.2.4', module: 'helm', package: 'helm.sh/helm/v4/cmd/helm' };

const sanity: Source = { version: 'v5.6.0', module: 'csi-sidecars', package: `${csi}/csi-test/v5/cmd/csi-sanity` };

export type Sidecar = keyof typeof sidecars;

/** Paths of the programs of a cluster. */
export interface Binaries {
  readonly kubernetes: Readonly<Record<(typeof kubernetesPrograms)[number], string>>;
  readonly sidecars: Readonly<Record<Sidecar, string>>;
  /** A directory with the snapshot-controller's CRDs and RBAC manifests. */
  readonly snapshotManifests: string;
  /** A directory to put on PATH. */
  readonly dir: string;
}

/** Compiles Kubernetes and the CSI sidecars on first use: about ten minutes on two cores. */
export async function ensureBinaries(): Promise<Binaries> {
  const kube = await ensureKubernetes();
  const programs: [string, string][] = [];
  for (const [name, source] of Object.entries(sidecars)) programs.push([name, await ensureProgram(name, source)]);
  return {
    kubernetes: Object.fromEntries(
      kubernetesPrograms.map((program) => [program, join(kube, program)]),
    ) as Binaries['kubernetes'],
    sidecars: Object.fromEntries(programs) as Binaries['sidecars'],
    snapshotManifests: await ensureSnapshotManifests(),
    dir: kube,
  };
}

/** csi-sanity, the conformance tests of CSI drivers. */
export function ensureCsiSanity(): Promise<string> {
  return ensureProgram('csi-sanity', sanity);
}

/** Installs charts. */
export function ensureHelm(): Promise<string> {
  return ensureProgram('helm', helm);
}

/** One program that contains all of Kubernetes, and acts by the name it is called by. */
async function ensureKubernetes(): Promise<string> {
  const module = join(modules, 'kube');
  const variables = versionVariables();
  const name = `kubernetes-${kubernetesVersion}`;
  const key = await keyOf([...pins(module), join(module, 'main.go')], [JSON.stringify(variables)]);
  return cached(`${name}-${key}`, async (dir) => {
    await build(name, { module, package: '.', output: join(dir, 'kube'), variables });
    for (const program of kubernetesPrograms) await symlink('kube', join(dir, program));
  });
}

async function ensureProgram(program: string, source: Source): Promise<string> {
  const module = join(modules, source.module);
  const variables = { 'main.version': source.version };
  const name = `${program}-${source.version}`;
  const key = await keyOf(pins(module), [JSON.stringify(variables)]);
  const dir = await cached(`${name}-${key}`, (dir) =>
    build(name, { module, package: source.package, output: join(dir, program), variables }),
  );
  return join(dir, program);
}

/** They are part of the snapshotter's modules. */
async function ensureSnapshotManifests(): Promise<string> {
  const module = join(modules, sidecars['csi-snapshotter'].module);
  return cached(`snapshot-manifests-${await keyOf(pins(module))}`, async (dir) => {
    const crds = join(await moduleDir(module, `${csi}/external-snapshotter/client/v8`), 'config', 'crd');
    const kinds = ['volumesnapshotclasses', 'volumesnapshotcontents', 'volumesnapshots'];
    for (const kind of kinds)
      await copyFile(join(crds, `snapshot.storage.k8s.io_${kind}.yaml`), join(dir, `${kind}.yaml`));
    const deploy = join(await moduleDir(module, `${csi}/external-snapshotter/v8`), 'deploy', 'kubernetes');
    await copyFile(join(deploy, 'snapshot-controller', 'rbac-snapshot-controller.yaml'), join(dir, 'rbac.yaml'));
  });
}

function pins(module: string): string[] {
  return ['go.mod', 'go.sum'].map((file) => join(module, file));
}

async function build(name: string, program: GoProgram): Promise<void> {
  await stage(`Building ${name.replaceAll('-', ' ')} (once)`, async (say) => {
    await requireGo();
    await goBuild(program, say);
  });
}

async function requireGo(): Promise<void> {
  await execute('go', ['version'], { env: downloadEnvironment() }).catch((error: Error) => {
    throw new Error(`building the test cluster needs Go, but 'go version' failed: ${error.message}; install Go`);
  });
}

/** The version variables that Kubernetes' own build sets. */
function versionVariables(): Record<string, string> {
  const [major, minor] = kubernetesVersion.slice(1).split('.');
  const values = { gitVersion: kubernetesVersion, gitMajor: major, gitMinor: minor, gitTreeState: 'clean' };
  const packages = ['k8s.io/client-go/pkg/version', 'k8s.io/component-base/version'];
  return Object.fromEntries(
    packages.flatMap((name) => Object.entries(values).map(([key, value]) => [`${name}.${key}`, String(value)])),
  );
}

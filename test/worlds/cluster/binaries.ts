import { execFile } from 'node:child_process';
import { symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cached, keyOf } from '../host/cache.ts';
import { stage } from '../host/progress.ts';
import { goBuild } from './go-build.ts';

const run = promisify(execFile);
const modules = join(import.meta.dirname, 'binaries');

export const kubernetesVersion = 'v1.36.3';
const provisionerVersion = 'v5.1.0';

const kubernetesPrograms = [
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kubelet',
  'kubectl',
] as const;

/** Paths of the programs that a cluster is made of. */
export interface Binaries {
  readonly kubernetes: Readonly<Record<(typeof kubernetesPrograms)[number], string>>;
  readonly csiProvisioner: string;
  /** A directory to put on PATH. */
  readonly dir: string;
}

/** Compiles Kubernetes and the CSI sidecar unless that was done before: about eight minutes on two cores, once. */
export async function ensureBinaries(): Promise<Binaries> {
  const kube = await build(`kubernetes-${kubernetesVersion}`, 'kube', '.', versionVariables(), async (dir) => {
    for (const program of kubernetesPrograms) await symlink('kube', join(dir, program));
  });
  const provisioner = await build(
    `csi-provisioner-${provisionerVersion}`,
    'csi-provisioner',
    'github.com/kubernetes-csi/external-provisioner/v5/cmd/csi-provisioner',
    { 'main.version': provisionerVersion },
  );
  const kubernetes = Object.fromEntries(kubernetesPrograms.map((program) => [program, join(kube, program)]));
  return {
    kubernetes: kubernetes as Binaries['kubernetes'],
    csiProvisioner: join(provisioner, 'csi-provisioner'),
    dir: kube,
  };
}

async function build(
  name: string,
  program: string,
  goPackage: string,
  variables: Record<string, string>,
  finish: (dir: string) => Promise<void> = async () => {},
): Promise<string> {
  const module = join(modules, program);
  const sources = ['go.mod', 'go.sum', ...(goPackage === '.' ? ['main.go'] : [])].map((file) => join(module, file));
  const key = await keyOf(sources, [JSON.stringify(variables)]);
  return cached(`${name}-${key}`, (dir) =>
    stage(`Building ${name.replaceAll('-', ' ')} (once)`, async (say) => {
      await requireGo();
      await goBuild({ module, package: goPackage, output: join(dir, program), variables }, say);
      await finish(dir);
    }),
  );
}

async function requireGo(): Promise<void> {
  await run('go', ['version']).catch((error: Error) => {
    throw new Error(`Go is needed to build the test cluster, and 'go version' failed: ${error.message}`);
  });
}

/** What Kubernetes' own build sets, so that its programs know their version. */
function versionVariables(): Record<string, string> {
  const [major, minor] = kubernetesVersion.slice(1).split('.');
  const values = { gitVersion: kubernetesVersion, gitMajor: major, gitMinor: minor, gitTreeState: 'clean' };
  const packages = ['k8s.io/client-go/pkg/version', 'k8s.io/component-base/version'];
  return Object.fromEntries(
    packages.flatMap((name) => Object.entries(values).map(([key, value]) => [`${name}.${key}`, String(value)])),
  );
}

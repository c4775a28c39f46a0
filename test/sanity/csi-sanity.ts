import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { execute } from '../../worlds/host/processes.ts';

export interface SanityOptions {
  /** Path of csi-sanity. */
  readonly program: string;
  /** Address of the node service, and of the controller service unless that has its own. */
  readonly endpoint: string;
  readonly controllerEndpoint?: string;
  /** For mount points, parameters and the report; created if necessary. */
  readonly dir: string;
  /** The directory of the mount points, if it must be elsewhere. */
  readonly mountPoints?: string;
  readonly accessType: 'mount' | 'block';
  /** Parameters of a StorageClass. */
  readonly parameters?: Readonly<Record<string, string>>;
  /** Parameters of a VolumeAttributesClass. */
  readonly mutableParameters?: Readonly<Record<string, string>>;
  /** Runs a command where the endpoints are reachable, and returns its output; on the host by default. */
  readonly execute?: (argv: readonly string[], timeoutMs: number) => Promise<string>;
}

/** Tests of csi-sanity that are skipped, and why. A new capability makes this check fail. */
export interface Skip {
  readonly tests: RegExp;
  readonly count: number;
  readonly why: string;
}

/** Features that local volumes do not have. */
export const neverOffered: readonly Skip[] = [
  {
    tests: /^Controller Service .* (ControllerPublishVolume|ControllerUnpublishVolume|volume lifecycle) /,
    count: 10,
    why: 'PUBLISH_UNPUBLISH_VOLUME: a volume is on its node and needs no attaching',
  },
  { tests: /^GroupController Service /, count: 6, why: 'GROUP_CONTROLLER_SERVICE is not declared' },
  { tests: /VolumeHealth|StorageHealth/, count: 6, why: 'the alpha calls for health are not declared' },
  { tests: /snapshot with accessibility requirements/, count: 1, why: 'a snapshot is where its volume is' },
  { tests: / ListVolumes pagination should detect volumes/, count: 1, why: 'csi-sanity itself has it switched off' },
];

/** Limits apply to pods, which exist only in Kubernetes. */
export const notWithoutKubernetes: readonly Skip[] = [
  { tests: /ModifyVolume|volume attribute class/, count: 8, why: 'MODIFY_VOLUME is declared where nodes limit pods' },
];

interface SpecReport {
  readonly ContainerHierarchyTexts: readonly string[] | null;
  readonly LeafNodeText: string;
  readonly LeafNodeType: string;
  readonly State: string;
  readonly Failure?: { readonly Message: string; readonly Location: { readonly LineNumber: number } };
}

const mebi = 1024 ** 2;
const timeoutMs = 300_000;

/** Runs all of csi-sanity. Every test must pass, except those listed as skipped, which must be skipped. */
export async function mustPassCsiSanity(options: SanityOptions, skips: readonly Skip[]): Promise<void> {
  const specs = await run(options);
  const failures = specs.filter(({ State }) => !['passed', 'skipped', 'pending'].includes(State)).map(failureText);
  assert.deepEqual(failures, [], `csi-sanity failed:\n${failures.join('\n')}`);

  const skipped = specs.filter(({ State }) => State !== 'passed').map(nameOf);
  const unexplained = skipped.filter((name) => !skips.some(({ tests }) => tests.test(name)));
  assert.deepEqual(unexplained, [], 'each skipped test has a reason');
  for (const { tests, count, why } of skips) {
    assert.equal(skipped.filter((name) => tests.test(name)).length, count, `skipped by ${tests}: ${why}`);
  }
  assert.ok(specs.length - skipped.length > 50, 'most tests ran');
}

async function run(options: SanityOptions): Promise<readonly SpecReport[]> {
  const { program, endpoint, controllerEndpoint, dir, mountPoints = dir, accessType, execute = executeHere } = options;
  await mkdir(dir, { recursive: true });
  const report = join(dir, 'report.json');
  const argv = [
    program,
    `--csi.endpoint=${endpoint}`,
    ...(controllerEndpoint ? [`--csi.controllerendpoint=${controllerEndpoint}`] : []),
    `--csi.mountdir=${join(mountPoints, 'target')}`,
    `--csi.stagingdir=${join(mountPoints, 'staging')}`,
    `--csi.testvolumeaccesstype=${accessType}`,
    `--csi.testvolumesize=${48 * mebi}`,
    `--csi.testvolumeexpandsize=${96 * mebi}`,
    ...(await parameterFile(dir, 'testvolumeparameters', options.parameters)),
    ...(await parameterFile(dir, 'testvolumemutableparameters', options.mutableParameters)),
    `--ginkgo.json-report=${report}`,
  ];
  const output = await execute(argv, timeoutMs);
  const [suite] = JSON.parse(
    await readFile(report, 'utf8').catch(() => {
      throw new Error(`csi-sanity wrote no report:\n${output}`);
    }),
  ) as [{ readonly SpecReports: readonly SpecReport[] }];
  return suite.SpecReports.filter(({ LeafNodeType }) => LeafNodeType === 'It');
}

/** The report says whether it succeeded. */
async function executeHere([program = '', ...args]: readonly string[], timeout: number): Promise<string> {
  const options = { timeout, maxBuffer: 64 * mebi };
  const { stdout, stderr } = await execute(program, args, options).catch(
    (error: Record<'stdout' | 'stderr', string>) => error,
  );
  return stdout + stderr;
}

async function parameterFile(
  dir: string,
  flag: string,
  parameters?: Readonly<Record<string, string>>,
): Promise<string[]> {
  if (!parameters) return [];
  const file = join(dir, `${flag}.yaml`);
  await writeFile(file, stringify(parameters));
  return [`--csi.${flag}=${file}`];
}

function nameOf({ ContainerHierarchyTexts, LeafNodeText }: SpecReport): string {
  return [...(ContainerHierarchyTexts ?? []), LeafNodeText].join(' ');
}

function failureText(spec: SpecReport): string {
  const { Message = spec.State, Location } = spec.Failure ?? {};
  return `${nameOf(spec)} (line ${Location?.LineNumber}): ${Message}`;
}

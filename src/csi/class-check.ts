import { driverName, parameters, secretParameters, topologyKey } from '../api/names.ts';
import { InvalidInput, messageOf } from '../base/errors.ts';
import { mostSimilar } from '../base/similar.ts';
import { defaultFilesystem, filesystemNamed } from '../filesystem/filesystem.ts';
import { allowsNode } from '../kube/node-selector.ts';
import type { StorageClass } from '../kube/resource.ts';
import { isOurs, meantName, unknownName } from './class-parameters.ts';
import { contextFor, isEncryptionRequested } from './volume-use.ts';

export type DeviceClassesOfNodes = ReadonlyMap<string, ReadonlySet<string>>;

type Parameters = Readonly<Record<string, string>>;

/** Problems of a class, one sentence each. With an error no volume can be created, or not the one that was meant. */
export interface ClassFindings {
  readonly errors: readonly string[];
  readonly warnings: readonly string[];
}

/** The sidecars read these names, in all versions, and fail on any other one with their prefix. */
const sidecarPrefix = 'csi.storage.k8s.io/';
const filesystemParameter = `${sidecarPrefix}fstype`;
const secretParameter = /^(csi\.storage\.k8s\.io\/([a-z]+-)*secret-name(space)?|csi[A-Za-z]+SecretName(space)?)$/;

const immediate =
  'volumeBindingMode Immediate: a volume is created before its pod is scheduled, on any node, and the pod can only run there; ' +
  'use WaitForFirstConsumer';

/**
 * What is wrong with a StorageClass of this driver, apart from what the chart's policy refuses: zones, topologies, filesystems.
 * `served` are the device classes of each node by its name, '' for a default one; none if no node has reported yet.
 */
export function checkStorageClass(storageClass: StorageClass, served: DeviceClassesOfNodes): ClassFindings {
  const given = storageClass.parameters ?? {};
  const names = Object.keys(given).filter((name) => !isFilesystemName(name));
  const { errors, warnings } = checkNames(names, Object.values(parameters), [filesystemParameter]);
  return {
    errors: [...errors, ...valueErrors(given)],
    warnings: [
      ...warnings,
      ...(storageClass.volumeBindingMode === 'Immediate' ? [immediate] : []),
      ...unservedClass(given[parameters.deviceClass] ?? '', storageClass, served),
    ],
  };
}

/** What is wrong with the parameters of a VolumeSnapshotClass of this driver, which has none of its own. */
export function checkSnapshotClass(given: Parameters): ClassFindings {
  return checkNames(Object.keys(given), []);
}

/** A name without our prefix is ignored when a volume is created, so it is an error only if one of ours was meant. */
function checkNames(
  given: readonly string[],
  known: readonly string[],
  ofSidecars: readonly string[] = [],
): ClassFindings {
  const all = [...known, ...ofSidecars];
  const unknown = given.filter((name) => !all.includes(name) && !secretParameter.test(name));
  const isError = (name: string) =>
    isOurs(name) || name.startsWith(sidecarPrefix) || meantName(name, all) !== undefined;
  return {
    errors: unknown.filter(isError).map((name) => unknownName(name, all)),
    warnings: unknown
      .filter((name) => !isError(name))
      .map((name) => `parameter ${JSON.stringify(name)} has no effect on volumes of ${driverName}; leave it out`),
  };
}

/** csi-provisioner still reads the names without a prefix. */
function isFilesystemName(name: string): boolean {
  return name === filesystemParameter || name.toLowerCase() === 'fstype';
}

/** As CreateVolume reads them. */
function valueErrors(given: Parameters): string[] {
  const name = Object.keys(given).find(isFilesystemName);
  const filesystem = name && given[name] ? filesystemNamed(given[name]) : defaultFilesystem;
  if (!filesystem) return [];
  try {
    contextFor(given, { kind: 'filesystem', filesystem, mountFlags: [] });
    return isEncryptionRequested(given) ? missingSecret(given) : [];
  } catch (error) {
    if (error instanceof InvalidInput) return [messageOf(error)];
    throw error;
  }
}

/** Without it no node can open the volume. */
function missingSecret(given: Parameters): string[] {
  const names = [secretParameters.stage, 'csi.storage.k8s.io/secret-name', 'csiNodeStageSecretName'];
  if (names.some((name) => given[name])) return [];
  const { stage } = secretParameters;
  return [`${parameters.encryption} requires a Secret with the key; set ${stage} and ${stage}space`];
}

/** Nodes report volume groups under the same names as device classes, so `served` is not a list for people. */
function unservedClass(
  deviceClass: string,
  { allowedTopologies }: StorageClass,
  nodes: DeviceClassesOfNodes,
): string[] {
  const allowed = [...nodes.keys()].filter((name) => allowsNode(allowedTopologies, { [topologyKey]: name }));
  if (nodes.size > 0 && allowed.length === 0) {
    return [`allowedTopologies leaves out every node that has storage; list names of nodes under ${topologyKey}`];
  }
  const served = new Set(allowed.flatMap((name) => [...(nodes.get(name) ?? [])]));
  if (served.size === 0 || served.has(deviceClass)) return [];
  const none = allowedTopologies?.length ? 'no node of allowedTopologies' : 'no node';
  const offered = 'kubectl moorage nodes shows those that nodes have';
  if (deviceClass === '') return [`${none} has a default device class; set ${parameters.deviceClass}: ${offered}`];
  const meant = mostSimilar(deviceClass, [...served].filter((name) => name !== '').sort());
  const remedy = meant ? `did you mean ${meant}?` : offered;
  return [`${none} has device class ${JSON.stringify(deviceClass)} (${parameters.deviceClass}); ${remedy}`];
}

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { volumeMove } from '../../../src/api/names.ts';
import { type MovePhase, volumeMoves } from '../../../src/api/volume-move.ts';
import { persistentVolumes } from '../../../src/kube/resource.ts';
import type { Cluster } from '../../../worlds/cluster/cluster.ts';

/** On a move: its phase, and perhaps the end whose answers are refused. On a PersistentVolume: its deletion does not end. */
export const holdAnnotation = 'test.moorage.dev/hold';
/** What a refused agent reports. */
export const heldMessage = 'held by a test';

/** A phase that a move cannot leave; an agent of that end does its work in it, but cannot record it. */
export interface Hold {
  readonly phase: MovePhase;
  readonly end?: 'source' | 'target' | undefined;
}

export interface MoveKey {
  readonly name: string;
  readonly namespace: string;
}

export function holdOf({ phase, end }: Hold): Record<string, string> {
  return { [holdAnnotation]: end ? `${phase} ${end}` : phase };
}

/** Lets the move go on, as far as this cluster's hold is concerned. A process that was refused notices it at once. */
export async function release(cluster: Cluster, { name, namespace }: MoveKey, volumeName: string): Promise<void> {
  const body = { metadata: { annotations: { [holdAnnotation]: null } } };
  await cluster.kube.patch(volumeMoves, name, { type: 'merge', body }, { namespace });
  await releaseVolume(cluster, volumeName);
}

/** From when it is deleted on, nobody can remove the finalizers of this PersistentVolume. */
export async function holdVolume(cluster: Cluster, name: string): Promise<void> {
  await cluster.kubectl('annotate', 'pv', name, `${holdAnnotation}=true`);
}

export async function releaseVolume(cluster: Cluster, name: string): Promise<void> {
  const volume = await cluster.kube.get(persistentVolumes, name);
  if (volume?.metadata.annotations?.[holdAnnotation])
    await cluster.kubectl('annotate', 'pv', name, `${holdAnnotation}-`);
}

const isSame = (path: string, none: string) =>
  `object.?status${path}.orValue(${none}) == oldObject.?status${path}.orValue(${none})`;
const answers = {
  source: ['.?source.?fenced', '.?source.?readOnly', '.?source.?released'].map((path) => isSame(path, 'false')),
  target: [
    ...['.?target.?converged', '.?target.?opened'].map((path) => isSame(path, 'false')),
    isSame('.?target.?verdict.?sha256', "''"),
  ],
};
const held = `oldObject.metadata.?annotations[?'${holdAnnotation}'].orValue('')`;
const phase = "oldObject.?status.?phase.orValue('Pending')";

const policies = [
  policy('move-holds', { apiGroups: [volumeMove.group], resources: [`${volumeMove.plural}/status`] }, [
    `!${held}.startsWith(${phase}) || ${isSame('.?phase', "'Pending'")}`,
    `${held} != ${phase} + ' source' || ${answers.source.join(' && ')}`,
    `${held} != ${phase} + ' target' || ${answers.target.join(' && ')}`,
  ]),
  policy('volume-holds', { apiGroups: [''], resources: ['persistentvolumes'] }, [
    `${held} == '' || !has(oldObject.metadata.deletionTimestamp) || ` +
      `!('${holdAnnotation}' in object.metadata.?annotations.orValue({})) || ` +
      'object.metadata.?finalizers.orValue([]) == oldObject.metadata.?finalizers.orValue([])',
  ]),
].flat();

/**
 * Makes holds possible: the API server itself refuses the writes that would end a phase, so that a process is killed at
 * exactly that point, however fast the machine is.
 */
export async function installHolds(cluster: Cluster): Promise<void> {
  const file = join(cluster.dir, 'move-holds.json');
  await writeFile(file, JSON.stringify({ apiVersion: 'v1', kind: 'List', items: policies }));
  await cluster.kubectl('apply', '-f', file);
}

function policy(
  name: string,
  rule: { readonly apiGroups: readonly string[]; readonly resources: readonly string[] },
  expressions: readonly string[],
) {
  const apiVersion = 'admissionregistration.k8s.io/v1';
  return [
    {
      apiVersion,
      kind: 'ValidatingAdmissionPolicy',
      metadata: { name },
      spec: {
        failurePolicy: 'Fail',
        matchConstraints: { resourceRules: [{ ...rule, apiVersions: ['*'], operations: ['UPDATE'] }] },
        validations: expressions.map((expression) => ({ expression, message: heldMessage, reason: 'Forbidden' })),
      },
    },
    {
      apiVersion,
      kind: 'ValidatingAdmissionPolicyBinding',
      metadata: { name },
      spec: { policyName: name, validationActions: ['Deny'] },
    },
  ];
}

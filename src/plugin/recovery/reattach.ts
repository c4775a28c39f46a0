import { parameters } from '../../api/names.ts';
import { InvalidInput, MoorageError } from '../../base/errors.ts';
import type { KubeClient } from '../../kube/client.ts';
import {
  type PersistentVolume,
  persistentVolumeClaims,
  persistentVolumes,
  type Stored,
  statefulSets,
  storageClasses,
} from '../../kube/resource.ts';
import { type ClaimKey, claimOf } from '../claim-ref.ts';
import { readLogicalVolumeOf } from '../facts.ts';
import { CannotReattach, lastOwner, planReattach } from './reattach-plan.ts';

export interface ReattachRequest {
  /** As typed: `pv/NAME`, or only its name. */
  readonly volume: string;
  /** `namespace/claim`; empty for the claim that it belonged to. */
  readonly to: string;
  /** The StatefulSet whose pod gets the volume; empty for none. */
  readonly statefulSet: string;
  /** Of the context, for names without one. */
  readonly namespace: string;
}

/** Everything that must change, and nothing that is done already. */
export async function reattachment(client: KubeClient, request: ReattachRequest, signal: AbortSignal) {
  if (request.to && request.statefulSet) throw new InvalidInput('use --to or --statefulset, not both');
  const volume = await readPersistentVolume(client, request.volume, signal);
  const target = await targetOf(client, request, volume, signal);
  const last = claimOf(volume);
  const get = (key: ClaimKey) => client.get(persistentVolumeClaims, key.name, { namespace: key.namespace, signal });
  const writes = planReattach(target, {
    volume,
    claim: await get(target),
    owner: last && (await get(last)),
    logicalVolume: await readLogicalVolumeOf(client, volume, signal),
    deviceClass: await deviceClassOf(client, volume, signal),
  });
  return { target, writes };
}

async function deviceClassOf(
  client: KubeClient,
  { spec }: Stored<PersistentVolume>,
  signal: AbortSignal,
): Promise<string | undefined> {
  const storageClass = spec?.storageClassName && (await client.get(storageClasses, spec.storageClassName, { signal }));
  return storageClass ? storageClass.parameters?.[parameters.deviceClass] : undefined;
}

export async function readPersistentVolume(
  client: KubeClient,
  word: string,
  signal: AbortSignal,
): Promise<Stored<PersistentVolume>> {
  const name = word.replace(/^(pv|persistentvolumes?)\//, '');
  const found = await client.get(persistentVolumes, name, { signal });
  if (found) return found;
  throw new NoSuchPersistentVolume(`there is no PersistentVolume ${name}; see kubectl get pv`);
}

async function targetOf(
  client: KubeClient,
  { to, statefulSet, namespace: current }: ReattachRequest,
  volume: Stored<PersistentVolume>,
  signal: AbortSignal,
): Promise<ClaimKey> {
  if (statefulSet) return claimOfSet(client, { namespace: current, name: statefulSet }, volume, signal);
  if (!to) return lastOwner(volume);
  const [first = '', second, ...rest] = to.split('/');
  if (!first || second === '' || rest.length > 0)
    throw new InvalidInput(`--to ${to}: use <namespace>/<claim> or <claim>`);
  return second === undefined ? { namespace: current, name: first } : { namespace: first, name: second };
}

/** The claim of the pod that the volume belonged to; of a set with another name, the first claim that has no volume. */
async function claimOfSet(
  client: KubeClient,
  { namespace, name }: ClaimKey,
  volume: Stored<PersistentVolume>,
  signal: AbortSignal,
): Promise<ClaimKey> {
  const set = await client.get(statefulSets, name, { namespace, signal });
  if (!set)
    throw new NoSuchPersistentVolume(`there is no StatefulSet ${namespace}/${name}; choose its namespace with -n`);
  const templates = set.spec?.volumeClaimTemplates?.flatMap(({ metadata }) => metadata?.name ?? []) ?? [];
  const before = volume.spec?.claimRef?.name ?? '';
  const isOfSet = (template: string) => {
    const prefix = `${template}-${name}-`;
    return before.startsWith(prefix) && /^\d+$/.test(before.slice(prefix.length));
  };
  if (volume.spec?.claimRef?.namespace === namespace && templates.some(isOfSet)) return { namespace, name: before };
  const [template, ...others] = templates;
  if (!template || others.length > 0) {
    const reason = `StatefulSet ${name} has ${templates.length} claim templates; name the claim with --to`;
    throw new CannotReattach(volume.metadata.name, reason);
  }
  const first = set.spec?.ordinals?.start ?? 0;
  for (let ordinal = first; ordinal < first + (set.spec?.replicas ?? 1); ordinal++) {
    const claim = { namespace, name: `${template}-${name}-${ordinal}` };
    const existing = await client.get(persistentVolumeClaims, claim.name, { namespace, signal });
    if (!existing?.spec?.volumeName) return claim;
  }
  throw new CannotReattach(
    volume.metadata.name,
    `every claim of StatefulSet ${name} has a volume; scale it up, or use --to`,
  );
}

export class NoSuchPersistentVolume extends MoorageError {
  readonly code = 'NotFound';
}

import { capacityAnnotationPrefix, defaultCapacityAnnotation, driverName, parameters } from '../api/names.ts';
import { parseQuantity } from '../base/quantity.ts';
import type { KubeClient } from '../kube/client.ts';
import {
  type PersistentVolumeClaim,
  type Pod,
  persistentVolumeClaims,
  type StorageClass,
  storageClasses,
} from '../kube/resource.ts';

type Volume = NonNullable<NonNullable<Pod['spec']>['volumes']>[number];
type ClaimSpec = NonNullable<PersistentVolumeClaim['spec']>;

/** The size of a claim without a request. */
const defaultBytes = 1024n ** 3n;

/** A claim of our driver: its request, or that it already has a volume, and so a node. */
type OurClaim = { readonly spec: ClaimSpec; readonly storageClass: StorageClass; readonly isPending: boolean };

/**
 * The request of a pod in bytes, by capacity annotation. Empty if one of its claims already has a volume of ours, because
 * that decides the node. Reads from the API server, not from a cache: a pod is often created right after its claims.
 */
export async function podRequest(
  client: Pick<KubeClient, 'get'>,
  namespace: string,
  pod: Pod,
  signal?: AbortSignal,
): Promise<ReadonlyMap<string, bigint>> {
  const ours = await ourClaims(client, namespace, pod, signal);
  const request = new Map<string, bigint>();
  if (ours.some(({ isPending }) => !isPending)) return request;
  for (const { spec, storageClass } of ours) {
    const annotation = annotationOf(storageClass);
    request.set(annotation, (request.get(annotation) ?? 0n) + bytesOf(spec));
  }
  return request;
}

async function ourClaims(
  client: Pick<KubeClient, 'get'>,
  namespace: string,
  pod: Pod,
  signal: AbortSignal | undefined,
): Promise<OurClaim[]> {
  const volumes = pod.spec?.volumes ?? [];
  const classes = new Map<string, StorageClass | undefined>();
  const ours: OurClaim[] = [];
  // One after the other: anybody may send a pod, with any number of volumes.
  for (const volume of volumes) {
    const claim = await claimOf(client, namespace, volume, signal);
    const name = claim?.spec.storageClassName;
    if (!name) continue;
    if (!classes.has(name)) classes.set(name, await client.get(storageClasses, name, { signal }));
    const storageClass = classes.get(name);
    if (storageClass?.provisioner === driverName) ours.push({ ...claim, storageClass });
  }
  return ours;
}

/** Undefined if there is none. A claim that does not exist yet is unknown, and no reason to refuse the pod. */
async function claimOf(
  client: Pick<KubeClient, 'get'>,
  namespace: string,
  { persistentVolumeClaim, ephemeral }: Volume,
  signal: AbortSignal | undefined,
): Promise<Omit<OurClaim, 'storageClass'> | undefined> {
  const template = ephemeral?.volumeClaimTemplate;
  if (template) return { spec: template.spec, isPending: true };
  if (!persistentVolumeClaim) return undefined;
  const claim = await client.get(persistentVolumeClaims, persistentVolumeClaim.claimName, { namespace, signal });
  return claim?.spec && { spec: claim.spec, isPending: claim.status?.phase === 'Pending' };
}

function annotationOf({ parameters: given }: StorageClass): string {
  const deviceClass = given?.[parameters.deviceClass];
  return deviceClass ? `${capacityAnnotationPrefix}${deviceClass}` : defaultCapacityAnnotation;
}

function bytesOf({ resources }: ClaimSpec): bigint {
  const asked = resources?.requests?.['storage'];
  return (asked && parseQuantity(asked)) || defaultBytes;
}

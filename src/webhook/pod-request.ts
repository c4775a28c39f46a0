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
  const claims = await Promise.all(
    volumes.map(async ({ persistentVolumeClaim, ephemeral }) => {
      const template = ephemeral?.volumeClaimTemplate;
      if (template) return { spec: template.spec, isPending: true };
      if (!persistentVolumeClaim) return undefined;
      // A claim that does not exist yet is unknown, and no reason to refuse the pod.
      const claim = await client.get(persistentVolumeClaims, persistentVolumeClaim.claimName, { namespace, signal });
      return claim?.spec && { spec: claim.spec, isPending: claim.status?.phase === 'Pending' };
    }),
  );
  const ours = await Promise.all(
    claims.map(async (claim): Promise<OurClaim[]> => {
      const name = claim?.spec.storageClassName;
      const storageClass = name ? await client.get(storageClasses, name, { signal }) : undefined;
      return claim && storageClass?.provisioner === driverName ? [{ ...claim, storageClass }] : [];
    }),
  );
  return ours.flat();
}

function annotationOf({ parameters: given }: StorageClass): string {
  const deviceClass = given?.[parameters.deviceClass];
  return deviceClass ? `${capacityAnnotationPrefix}${deviceClass}` : defaultCapacityAnnotation;
}

function bytesOf({ resources }: ClaimSpec): bigint {
  const asked = resources?.requests?.['storage'];
  return (asked && parseQuantity(asked)) || defaultBytes;
}

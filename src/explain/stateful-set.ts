import type { Pod, StatefulSet, Stored } from '../kube/resource.ts';
import { claimDeletion } from './deletion.ts';
import type { Finding } from './explanation.ts';
import { type Claim, eventText, type Known } from './known.ts';

type StoredSet = Stored<StatefulSet>;

/** The pod of a StatefulSet to explain, or why there is none. */
export type SetState =
  | { readonly kind: 'pod'; readonly pod: Stored<Pod> }
  | { readonly kind: 'missing'; readonly podName: string; readonly finding: Finding }
  | { readonly kind: 'complete' };

/** The first pod that is missing or not ready. */
export function setState(set: StoredSet, known: Known): SetState {
  const { name, namespace } = set.metadata;
  const { replicas = 1, ordinals, podManagementPolicy } = set.spec ?? {};
  const first = ordinals?.start ?? 0;
  let lower: Stored<Pod> | undefined;
  for (let ordinal = first; ordinal < first + replicas; ordinal++) {
    const podName = `${name}-${ordinal}`;
    const pod = known.pod(namespace, podName);
    if (!pod) {
      const finding = missingPod(set, podName, podManagementPolicy === 'Parallel' ? undefined : lower, known);
      return lower && finding.code === 'LowerOrdinal'
        ? { kind: 'pod', pod: lower }
        : { kind: 'missing', podName, finding };
    }
    if (!isReady(pod)) lower ??= pod;
  }
  return lower ? { kind: 'pod', pod: lower } : { kind: 'complete' };
}

/** As the API server shows it. If its node does not answer, a pod is shown as not ready after a short time. */
export function isReady({ metadata, status }: Stored<Pod>): boolean {
  if (metadata.deletionTimestamp) return false;
  return (status?.conditions ?? []).some(({ type, status: is }) => type === 'Ready' && is === 'True');
}

/** Why a pod of a StatefulSet does not exist. Undefined if it exists, or is not one of its pods. */
export function missingPodReason(set: StoredSet, podName: string, known: Known): Finding | undefined {
  const { name, namespace } = set.metadata;
  const { replicas = 1, ordinals, podManagementPolicy } = set.spec ?? {};
  const first = ordinals?.start ?? 0;
  const ordinal = Number(podName.slice(name.length + 1));
  if (known.pod(namespace, podName) || ordinal < first || ordinal >= first + replicas) return undefined;
  const below = Array.from({ length: ordinal - first }, (_, i) => `${name}-${first + i}`);
  const unready = below.map((each) => known.pod(namespace, each)).find((pod) => pod && !isReady(pod));
  return missingPod(set, podName, podManagementPolicy === 'Parallel' ? undefined : unready, known);
}

function missingPod(set: StoredSet, podName: string, lower: Stored<Pod> | undefined, known: Known): Finding {
  const { name } = set.metadata;
  const event = known.lastEvent(set, ['FailedCreate']);
  const evidence = [`there is no pod ${podName}`, ...(event ? [eventText(event)] : [])];
  const claims = (set.spec?.volumeClaimTemplates ?? []).flatMap(
    ({ metadata }) => known.claim(set.metadata.namespace, `${metadata?.name}-${podName}`) ?? [],
  );
  for (const claim of claims) {
    const found = claimInTheWay(claim, known);
    if (found) return { ...found, evidence: [...evidence, ...(found.evidence ?? [])] };
  }
  const [, quota] = /(exceeded quota: .*)/.exec(event?.note ?? '') ?? [];
  if (quota) {
    return {
      code: 'QuotaExceeded',
      cause: `it or its claim cannot be created: ${quota}`,
      advice: 'raise the quota, or see which claims it counts',
      evidence,
      remedy: [`kubectl describe resourcequota -n ${set.metadata.namespace}`],
    };
  }
  if (lower) {
    return {
      code: 'LowerOrdinal',
      cause: `it is created after pod ${lower.metadata.name} is ready`,
      advice: `see kubectl moorage why pod/${lower.metadata.name}`,
      evidence: [...evidence, `StatefulSet ${name}: podManagementPolicy OrderedReady`],
      remedy: [`kubectl moorage why pod/${lower.metadata.name} -n ${set.metadata.namespace}`],
    };
  }
  return {
    code: 'NotCreated',
    cause: event?.note ? `it cannot be created: ${event.note}` : 'it is not created yet',
    evidence,
    remedy: [`kubectl describe statefulset ${name} -n ${set.metadata.namespace}`],
  };
}

/** A StatefulSet does not create a pod while an old claim of its name goes. */
function claimInTheWay(claim: Claim, known: Known): Finding | undefined {
  const { name, ownerReferences = [] } = claim.metadata;
  const deletion = claimDeletion(claim, known);
  if (deletion) {
    const cause = deletion.cause.replace(/^it is/, `its old claim ${name} is`);
    return { ...deletion, code: 'ClaimBeingDeleted', cause };
  }
  const former = ownerReferences.find(({ kind }) => kind === 'Pod');
  if (!former) return undefined;
  return {
    code: 'StaleClaim',
    cause: `it is created after claim ${name} of its predecessor is gone, which Kubernetes deletes`,
    advice: 'wait, or give its data up',
    evidence: [`claim ${name}: owned by the former pod ${former.name} with the uid ${former.uid}`],
    remedy: [`kubectl moorage drop pvc/${name} -n ${claim.metadata.namespace} # says what would be lost`],
  };
}

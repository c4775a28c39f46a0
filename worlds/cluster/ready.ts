import type { Pod } from '../../src/kube/resource.ts';

/** Whether the pod is Ready. */
export function isReady(pod: Pod | undefined): boolean {
  return pod?.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false;
}

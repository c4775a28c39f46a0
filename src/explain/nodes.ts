import type { Node, Stored } from '../kube/resource.ts';

/** Whether the kubelet of a node does not answer, or says that it is not ready. */
export function isSilent({ status }: Stored<Node>): boolean {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  return ready !== undefined && ready.status !== 'True';
}

/** Why: continues a sentence about the node. */
export function notReady({ status }: Stored<Node>): string {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  return ready?.status === 'Unknown'
    ? 'its kubelet does not answer'
    : `it is not ready${ready?.message ? ` (${ready.message})` : ''}`;
}

/** The command that shows the agent of a node. */
export function agentOf(nodeName: string): string {
  return `kubectl get pods -A -l app.kubernetes.io/name=moorage,app.kubernetes.io/component=node --field-selector spec.nodeName=${nodeName}`;
}

/** The command that shows Moorage's controller. */
export const controllerPods =
  'kubectl get pods -A -l app.kubernetes.io/name=moorage,app.kubernetes.io/component=controller';

import { messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { changeWarning, placementIn, podsAfterChange, type Workload } from '../explain/inline-change.ts';
import type { Answer } from '../http/json-server.ts';
import type { KubeClient } from '../kube/client.ts';
import { admission } from './admission.ts';

/** Less than the API server waits. */
const timeoutMs = 2500;
/** More would not be read, and the API server passes on 4 KiB. */
const mostWarnings = 5;

/**
 * Admits every change of a StatefulSet or Deployment, and warns of pods that would not start again beside their data. It reads
 * the API server: to know the requests of all pods, and labels and taints of all nodes, costs too much memory for a change
 * that is rare and never waits longer than the limit.
 */
export function changeWebhook({ client, log }: { readonly client: KubeClient; readonly log: Log }): Answer {
  return admission<Workload>('StatefulSet or Deployment', async ({ namespace, object }) => {
    try {
      const warnings: string[] = [];
      for await (const pod of podsAfterChange(object, placementIn(client, AbortSignal.timeout(timeoutMs)))) {
        if (pod.obstacles.length === 0) continue;
        if (warnings.length === mostWarnings) return { allowed: true, warnings: [...warnings, 'and more pods'] };
        warnings.push(changeWarning(pod));
      }
      return { allowed: true, warnings };
    } catch (error) {
      log.warn({ err: error, namespace, name: object.metadata?.name }, `change not checked: ${messageOf(error)}`);
      return { allowed: true };
    }
  });
}

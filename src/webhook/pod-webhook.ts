import { capacityResource } from '../api/names.ts';
import { messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import type { JsonPatchStep, KubeClient } from '../kube/client.ts';
import type { Pod } from '../kube/resource.ts';
import { type Admission, admission } from './admission.ts';
import { podRequest } from './pod-request.ts';

/** The API server waits ten seconds by default, then refuses the pod. */
const timeoutMs = 8000;

/** Admits every pod, and adds annotations for the scheduler extender. */
export class PodWebhook {
  readonly #client: Pick<KubeClient, 'get'>;
  readonly #log: Log;

  constructor({ client, log }: { readonly client: Pick<KubeClient, 'get'>; readonly log: Log }) {
    this.#client = client;
    this.#log = log;
  }

  /** Answers an AdmissionReview. */
  readonly mutate = admission<Pod>('Pod', ({ namespace, object }) => this.#decide(namespace, object));

  async #decide(namespace: string, pod: Pod): Promise<Admission> {
    try {
      const request = await podRequest(this.#client, namespace, pod, AbortSignal.timeout(timeoutMs));
      const steps = request.size === 0 ? [] : patchOf(pod, request);
      if (steps.length === 0) return { allowed: true };
      const patch = Buffer.from(JSON.stringify(steps)).toString('base64');
      return { allowed: true, patchType: 'JSONPatch', patch };
    } catch (error) {
      // Without its annotations the pod could stay on a node without space. Its creator retries.
      this.#log.error({ err: error, namespace }, messageOf(error));
      return { allowed: false, status: { code: 500, message: messageOf(error) } };
    }
  }
}

/** A pod without containers is left to the API server, whose error message is better. */
function patchOf({ metadata, spec }: Pod, request: ReadonlyMap<string, bigint>): JsonPatchStep[] {
  const container = spec?.containers[0];
  if (!container) return [];
  const asked = [...request].map(([annotation, bytes]) => [annotation, String(bytes)]);
  const one = { [capacityResource]: '1' };
  const { requests, limits } = container.resources ?? {};
  return [
    { op: 'add', path: '/metadata/annotations', value: { ...metadata?.annotations, ...Object.fromEntries(asked) } },
    {
      op: 'add',
      path: '/spec/containers/0/resources',
      value: { ...container.resources, requests: { ...requests, ...one }, limits: { ...limits, ...one } },
    },
  ];
}

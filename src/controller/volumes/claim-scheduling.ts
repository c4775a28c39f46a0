import { selectedNodeAnnotation } from '../../api/names.ts';
import type { Scheduling } from '../../csi/controller/volume-store.ts';
import { isConflict, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { persistentVolumeClaims } from '../../kube/resource.ts';

/**
 * Chooses a claim's node in place of the scheduler, which cannot know that only one node will do. From then on it considers
 * no other node for the claim's pods, and csi-provisioner asks for the volume there. That would take the scheduler's choice
 * back after a refusal, but not one that was changed meanwhile.
 */
export class ClaimScheduling implements Scheduling {
  readonly #client: Pick<KubeClient, 'get' | 'patch'>;

  constructor(client: Pick<KubeClient, 'get' | 'patch'>) {
    this.#client = client;
  }

  async chooseNode(claim: string, nodeName: string, signal: AbortSignal): Promise<void> {
    const [namespace = '', name = ''] = claim.split('/');
    const found = await this.#client.get(persistentVolumeClaims, name, { namespace, signal });
    const chosen = found?.metadata.annotations?.[selectedNodeAnnotation];
    if (!found || chosen === undefined || chosen === nodeName) return;
    const { resourceVersion } = found.metadata;
    const body = { metadata: { resourceVersion, annotations: { [selectedNodeAnnotation]: nodeName } } };
    try {
      await this.#client.patch(persistentVolumeClaims, name, { type: 'merge', body }, { namespace, signal });
    } catch (error) {
      // Whoever was faster has made another choice, or the claim is gone: if it is the wrong one, we are asked again.
      if (!isConflict(error) && !isNotFound(error)) throw error;
    }
  }
}

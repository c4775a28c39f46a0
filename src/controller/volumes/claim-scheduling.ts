import { selectedNodeAnnotation } from '../../api/names.ts';
import type { Scheduling } from '../../csi/controller/volume-store.ts';
import { isConflict, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { persistentVolumeClaims } from '../../kube/resource.ts';

/**
 * Chooses a claim's node in place of the scheduler, which cannot know that only one node is possible. The scheduler then
 * considers no other node for the claim's pods, and csi-provisioner requests the volume there. After a refusal it would
 * revert the scheduler's choice, but not one that was changed in the meantime.
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
      // Another writer was faster, or the claim is gone: if the node is wrong, the next call corrects it.
      if (!isConflict(error) && !isNotFound(error)) throw error;
    }
  }
}

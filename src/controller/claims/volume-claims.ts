import { reserve, selectedNodeAnnotation } from '../../api/names.ts';
import { isTombstoned } from '../../api/tombstone.ts';
import type { Claims } from '../../csi/controller/volume-store.ts';
import { isConflict, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Informer } from '../../kube/informer.ts';
import { type PersistentVolumeClaim, persistentVolumeClaims, type Stored } from '../../kube/resource.ts';
import { type ClaimOnDrain, claimOnDrain } from '../drain/drained-objects.ts';
import { type DecidedClaim, decidedClaim } from '../node-removal/late-decisions.ts';
import { type ClaimName, scalableClaim } from '../tombstones/scale-down.ts';
import { type HeldClaim, heldClaim } from './held-claims.ts';
import { type NamedClass, namedClass } from './ignored-classes.ts';
import { type InvalidPolicies, invalidPoliciesOf } from './invalid-policies.ts';

/** What we keep of a claim. */
export interface WatchedClaim {
  readonly held: HeldClaim | undefined;
  readonly named: NamedClass | undefined;
  readonly decided: DecidedClaim | undefined;
  readonly invalid: InvalidPolicies | undefined;
  readonly isTombstoned: boolean;
  readonly scalable: ClaimName | undefined;
  readonly onDrain: ClaimOnDrain | undefined;
  /** Any word. */
  readonly reserve: string | undefined;
}

/** Shared by claims that wait for a volume, to save memory. */
const ordinary: WatchedClaim = {
  held: undefined,
  named: undefined,
  decided: undefined,
  invalid: undefined,
  isTombstoned: false,
  scalable: undefined,
  onDrain: undefined,
  reserve: undefined,
};

export function watchedClaim(claim: Stored<PersistentVolumeClaim>): WatchedClaim {
  const held = heldClaim(claim);
  const named = namedClass(claim);
  const decided = decidedClaim(claim);
  const invalid = invalidPoliciesOf(claim);
  const hasTombstone = isTombstoned(claim);
  const scalable = scalableClaim(claim);
  const onDrain = claimOnDrain(claim);
  const word = claim.metadata.annotations?.[reserve.annotation];
  if (!held && !named && !decided && !invalid && !hasTombstone && !scalable && !onDrain && word === undefined) {
    return ordinary;
  }
  return { held, named, decided, invalid, isTombstoned: hasTombstone, scalable, onDrain, reserve: word };
}

interface Collaborators {
  readonly client: Pick<KubeClient, 'get' | 'patch'>;
  /** The claims of all namespaces. */
  readonly watched: Pick<Informer<PersistentVolumeClaim, WatchedClaim>, 'get'>;
}

/** The claims of new volumes. */
export class VolumeClaims implements Claims {
  readonly #client: Collaborators['client'];
  readonly #watched: Collaborators['watched'];

  constructor({ client, watched }: Collaborators) {
    this.#client = client;
    this.#watched = watched;
  }

  /** From memory, except for a claim that the watch has not reported yet. */
  async attributesClassOf(claim: string, signal: AbortSignal): Promise<string | undefined> {
    const watched = this.#watched.get(claim);
    if (watched) return watched.named?.name;
    const [namespace = '', name = ''] = claim.split('/');
    const found = await this.#client.get(persistentVolumeClaims, name, { namespace, signal });
    return found && namedClass(found)?.name;
  }

  async annotationOf(claim: string, key: string, signal: AbortSignal): Promise<string | undefined> {
    const [namespace = '', name = ''] = claim.split('/');
    const found = await this.#client.get(persistentVolumeClaims, name, { namespace, signal });
    return found?.metadata.annotations?.[key];
  }

  /**
   * Chooses a claim's node in place of the scheduler, which cannot know that only one node is possible. The scheduler then
   * considers no other node for the claim's pods, and csi-provisioner requests the volume there. After a refusal it would
   * revert the scheduler's choice, but not one that was changed in the meantime.
   */
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

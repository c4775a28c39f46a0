import assert from 'node:assert/strict';
import { logicalVolumes } from '../../../src/api/logical-volume.ts';
import { abortAnnotation, driverName } from '../../../src/api/names.ts';
import { isOver, type StoredVolumeMove, volumeMoves } from '../../../src/api/volume-move.ts';
import { persistentVolumes, storageClasses } from '../../../src/kube/resource.ts';
import type { Cluster } from '../../../worlds/cluster/cluster.ts';
import type { Moorage } from '../../../worlds/cluster/moorage.ts';
import { eventually } from '../../../worlds/host/eventually.ts';
import type { CheckedSet } from '../checked-set.ts';
import { type Hold, holdOf, holdVolume, installHolds, type MoveKey, release, releaseVolume } from './holds.ts';
import { onlyVolumesLeft } from './left-on-disks.ts';
import { expectedEnd, holdFor, isHeldAt, type MoveCase, nameOf, type VolumeKind } from './move-cases.ts';
import { type Ends, kill } from './move-faults.ts';

const encrypted = 'moorage-encrypted';

export const classOf: Readonly<Record<VolumeKind, string>> = {
  thick: 'moorage',
  thin: 'moorage-thin',
  file: 'moorage-file',
  encrypted,
};

/** From where most has to be undone: the volume is closed and read-only, and the target has all data. */
const beforeAbort: Hold = { phase: 'Freezing' };

export interface Outcome {
  readonly end: 'Done' | 'Aborted';
  /** How long the pod has not written, all in all. */
  readonly pauseSeconds: number;
}

/** Moves of pods that write all the time, on a cluster where moves can be held. */
export class MoveLab {
  readonly #cluster: Cluster;
  readonly #moorage: Moorage;

  private constructor(cluster: Cluster, moorage: Moorage) {
    this.#cluster = cluster;
    this.#moorage = moorage;
  }

  static async create(cluster: Cluster, moorage: Moorage): Promise<MoveLab> {
    await installHolds(cluster);
    await cluster.kubectl('create', 'secret', 'generic', 'moves-key', '--from-literal=passphrase=horse-battery');
    await cluster.kube.create(storageClasses, {
      metadata: { name: encrypted },
      provisioner: driverName,
      parameters: {
        'moorage.dev/encryption': 'luks2',
        'csi.storage.k8s.io/node-stage-secret-name': 'moves-key',
        'csi.storage.k8s.io/node-stage-secret-namespace': 'default',
        'csi.storage.k8s.io/node-publish-secret-name': 'moves-key',
        'csi.storage.k8s.io/node-publish-secret-namespace': 'default',
      },
      volumeBindingMode: 'WaitForFirstConsumer',
    });
    return new MoveLab(cluster, moorage);
  }

  /** The ends of the next move of a pod: it goes from node to node. */
  async endsOf(set: CheckedSet): Promise<Ends> {
    const source = await set.nodeOf();
    const names = this.#cluster.nodes.map(({ name }) => name);
    const target = names[(names.indexOf(source) + 1) % names.length];
    if (!target || source === '')
      throw new Error(`pod ${set.pod()} is on node ${source || '(none)'} of ${names.join(', ')}`);
    return { source, target };
  }

  /** Moves the volume of a pod, kills something at exactly one point of it, and checks everything that was promised. */
  async run(one: MoveCase, pod: CheckedSet): Promise<Outcome> {
    await pod.writes();
    const ends = await this.endsOf(pod);
    const volumeName = await this.#volumeOf(pod);
    const hold = holdFor(one);
    const key = keyOf(one, pod);
    if (one.phase === 'Switching') await holdVolume(this.#cluster, volumeName);
    await this.#begin(key, pod, ends.target, one);
    if (one.phase === 'Aborting') await this.#abort(key, hold);
    await this.#held(key, hold, volumeName);
    const goesOn = () => release(this.#cluster, key, volumeName);
    await kill(one.victim, { cluster: this.#cluster, moorage: this.#moorage }, ends, goesOn);
    const move = await this.#isOver(key);
    await releaseVolume(this.#cluster, volumeName); // the new one has the annotations of the old one
    assert.equal(move.status?.phase, expectedEnd(one), JSON.stringify(move.status));
    const pauseSeconds = await this.verify(pod, one.phase === 'Aborting' ? ends.source : ends.target);
    await onlyVolumesLeft(this.#cluster);
    await this.#cluster.kube.delete(volumeMoves, key.name, key);
    return { end: expectedEnd(one), pauseSeconds };
  }

  /**
   * The pod writes again, on this node, and nothing of what it had written is lost. Its claim is bound to the one volume that
   * is left. Returns how many seconds it has not written.
   */
  async verify(pod: CheckedSet, nodeName: string): Promise<number> {
    await eventually(`pod ${pod.pod()} is on ${nodeName}`, async () => (await pod.nodeOf()) === nodeName, {
      explain: () => this.#cluster.tails(),
    });
    const pauseSeconds = await pod.verify();
    await this.#claimHasOneVolume(pod, nodeName);
    return pauseSeconds;
  }

  async #isOver(key: MoveKey): Promise<StoredVolumeMove> {
    return eventually(
      `move ${key.name} is over`,
      async () => {
        const move = await this.#get(key);
        return isOver(move) && !move.metadata.finalizers?.length && move;
      },
      { explain: () => this.#explain(key) },
    );
  }

  /** After a case has failed: aborts its move if that is possible, so that the next one has its turn. */
  async giveUp(one: MoveCase, pod: CheckedSet): Promise<void> {
    const key = keyOf(one, pod);
    const volumeName = (await this.#cluster.kube.get(volumeMoves, key.name, key))?.status?.persistentVolume;
    if (volumeName === undefined) return;
    await release(this.#cluster, key, volumeName);
    await pod.ns.kubectl('delete', 'volumemove', key.name, '--wait=false');
  }

  async #begin(key: MoveKey, pod: CheckedSet, targetNode: string, one: MoveCase): Promise<void> {
    const { phase } = one;
    const first = phase === 'Aborting' ? beforeAbort : holdFor(one);
    await this.#cluster.kube.create(volumeMoves, {
      metadata: { ...key, annotations: holdOf(first) },
      spec: { claimName: pod.claim(), targetNode, ...(phase === 'Copying' && { rateLimit: '4Mi' }) },
    });
  }

  async #abort(key: MoveKey, hold: Hold): Promise<void> {
    await this.#held(key, beforeAbort, '');
    const body = { metadata: { annotations: { ...holdOf(hold), [abortAnnotation]: 'true' } } };
    await this.#cluster.kube.patch(volumeMoves, key.name, { type: 'merge', body }, key);
  }

  /** Resolves when the move is where something is to be killed. */
  async #held(key: MoveKey, hold: Hold, volumeName: string): Promise<void> {
    await eventually(
      `move ${key.name} is held in ${hold.phase}`,
      async () => {
        const move = await this.#get(key);
        if (isOver(move)) throw new Error(`it is ${JSON.stringify(move.status)}`);
        return isHeldAt(hold, move) && (await this.#isFarEnough(move, volumeName));
      },
      { explain: () => this.#explain(key) },
    );
  }

  /** What the status does not show. */
  async #isFarEnough({ status }: StoredVolumeMove, volumeName: string): Promise<boolean> {
    const { kube } = this.#cluster;
    if (status?.phase === 'Switching') {
      return (await kube.get(persistentVolumes, volumeName))?.metadata.deletionTimestamp !== undefined;
    }
    const isCreated = async () => (await kube.get(logicalVolumes, status?.targetVolume ?? ''))?.status?.volumeID;
    return status?.phase === 'Pending' ? Boolean(status.targetVolume && (await isCreated())) : true;
  }

  async #claimHasOneVolume(pod: CheckedSet, nodeName: string): Promise<void> {
    const { kube } = this.#cluster;
    const claim = await pod.ns.found(pod.claim());
    assert.equal(claim?.status?.phase, 'Bound');
    const volume = await kube.get(persistentVolumes, claim.spec?.volumeName ?? '');
    assert.equal(volume?.spec?.persistentVolumeReclaimPolicy, 'Delete');
    const { items } = await kube.list(logicalVolumes);
    const own = items.filter(({ metadata }) => metadata.name.startsWith(claim.spec?.volumeName ?? ''));
    assert.deepEqual(
      own.map(({ spec, status }) => [spec.nodeName, status?.volumeID]),
      [[nodeName, volume.spec.csi?.volumeHandle]],
    );
  }

  async #volumeOf(pod: CheckedSet): Promise<string> {
    return (await pod.ns.found(pod.claim()))?.spec?.volumeName ?? assert.fail(`claim ${pod.claim()} is not bound`);
  }

  async #get(key: MoveKey): Promise<StoredVolumeMove> {
    const move = await this.#cluster.kube.get(volumeMoves, key.name, key);
    if (!move) throw new Error(`there is no VolumeMove ${key.namespace}/${key.name}`);
    return move;
  }

  async #explain(key: MoveKey): Promise<string> {
    const objects = await this.#cluster
      .kubectl('get', 'volumemoves,pods,pvc,pv,logicalvolumes', '-A', '-owide')
      .catch((error: Error) => error.message);
    const move = await this.#get(key).catch((error: Error) => error.message);
    return [objects, JSON.stringify(move, undefined, 2), await this.#cluster.tails()].join('\n');
  }
}

function keyOf(one: MoveCase, pod: CheckedSet): MoveKey {
  return { name: nameOf(one), namespace: pod.name };
}

import type { TestContext } from 'node:test';
import { parameters } from '../../api/names.ts';
import type { Methods } from '../../rpc/client.ts';
import { Controller } from '../../rpc/gen/csi/v1/csi_pb.ts';
import { serving } from '../../rpc/testing/serving.ts';
import { controllerService } from '../controller/controller-service.ts';
import type {
  Claims,
  NodeCapacities,
  SnapshotStore,
  StoredSnapshot,
  StoredVolume,
  VolumeStore,
  WantedSnapshot,
  WantedVolume,
} from '../controller/volume-store.ts';
import type { IoLimits } from '../io-limits.ts';

const gibi = 1024n ** 3n;

/** For tests: the cluster's volumes. Nodes create them at once, one byte larger than requested. */
export class InMemoryVolumes implements VolumeStore {
  readonly wanted: WantedVolume[] = [];
  readonly stored = new Map<string, StoredVolume>();
  readonly limits = new Map<string, IoLimits>();

  async create(wanted: WantedVolume): Promise<StoredVolume> {
    this.wanted.push(wanted);
    const { name, nodeNames, deviceClass, lvcreateOptionClass, isEncrypted, sizeBytes, source, limits } = wanted;
    const id = `uid-${this.stored.size + 1}`;
    const kept = { id, name, nodeName: nodeNames[0], deviceClass, lvcreateOptionClass, isEncrypted };
    const volume = { ...kept, sizeBytes: sizeBytes + 1n, ...(source && { source }) };
    this.stored.set(id, volume);
    if (limits) this.limits.set(id, limits);
    return volume;
  }

  async find(id: string): Promise<StoredVolume | undefined> {
    return this.stored.get(id);
  }

  async list(): Promise<readonly StoredVolume[]> {
    return [...this.stored.values()];
  }

  async grow(id: string, sizeBytes: bigint): Promise<StoredVolume> {
    const volume = this.stored.get(id);
    if (!volume) throw new Error(`grow ${id}`);
    const grown = { ...volume, sizeBytes };
    this.stored.set(id, grown);
    return grown;
  }

  async modify(id: string, limits: IoLimits): Promise<void> {
    this.limits.set(id, limits);
  }

  async remove(id: string): Promise<void> {
    this.stored.delete(id);
  }
}

/** For tests: the cluster's snapshots. */
export class InMemorySnapshots implements SnapshotStore {
  readonly stored = new Map<string, StoredSnapshot>();

  async create({ name, sourceId }: WantedSnapshot): Promise<StoredSnapshot> {
    const snapshot = {
      id: `snap-${this.stored.size + 1}`,
      name,
      sourceId,
      nodeName: 'a',
      deviceClass: '',
      isEncrypted: false,
      sizeBytes: gibi,
      createdAt: new Date('2026-01-02T03:04:05Z'),
      isReady: true,
    };
    this.stored.set(snapshot.id, snapshot);
    return snapshot;
  }

  async find(id: string): Promise<StoredSnapshot | undefined> {
    return this.stored.get(id);
  }

  async list(): Promise<readonly StoredSnapshot[]> {
    return [...this.stored.values()];
  }

  async remove(id: string): Promise<void> {
    this.stored.delete(id);
  }
}

interface ServedController {
  readonly volumes: InMemoryVolumes;
  readonly snapshots: InMemorySnapshots;
  /** The nodes that claims were sent to, such as `shop/db to a`. */
  readonly sent: readonly string[];
  readonly calls: Methods<typeof Controller>;
}

/**
 * For tests: the service on two nodes with the default class, one of them, which also limits IO, with `fast` too. Node
 * `leaving` is being deleted. Claim `shop/limited` names the VolumeAttributesClass `bronze`; `shop/anywhere` allows copies on
 * another node.
 */
export async function servedController(
  t: TestContext,
  limitingIo: ReadonlySet<string> = new Set(['a']),
): Promise<ServedController> {
  const volumes = new InMemoryVolumes();
  const snapshots = new InMemorySnapshots();
  const free = new Map([
    ['', new Map([['a', 10n * gibi] as const, ['b', 30n * gibi] as const])],
    ['fast', new Map([['a', 5n * gibi]])],
  ]);
  const capacities: NodeCapacities = {
    freeBytes: (deviceClass) => free.get(deviceClass) ?? new Map<string, bigint>(),
    leaving: () => new Set(['leaving']),
    limitingIo: () => limitingIo,
    mayLimitIo: () => limitingIo.size > 0,
  };
  const sent: string[] = [];
  const claims: Claims = {
    attributesClassOf: async (claim) => (claim === 'shop/limited' ? 'bronze' : undefined),
    annotationOf: async (claim, key) =>
      claim === 'shop/anywhere' && key === parameters.crossNode ? 'allow' : undefined,
    chooseNode: async (claim, nodeName) => void sent.push(`${claim} to ${nodeName}`),
  };
  return {
    volumes,
    snapshots,
    sent,
    calls: await serving(t, Controller, controllerService({ volumes, snapshots, capacities, claims })),
  };
}

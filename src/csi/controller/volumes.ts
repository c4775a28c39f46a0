import { luks2, parameters } from '../../api/names.ts';
import { codeOf, InvalidInput, messageOf } from '../../base/errors.ts';
import type { Controller, ValidateVolumeCapabilitiesRequest } from '../../rpc/gen/csi/v1/csi_pb.ts';
import type { Implementation } from '../../rpc/server.ts';
import { refuseUnknownParameters } from '../class-parameters.ts';
import { parseIoLimits } from '../io-limits.ts';
import { required } from '../required.ts';
import { contextFor, volumeUse, volumeUses } from '../volume-use.ts';
import { grownSize, wantedVolume } from './create.ts';
import { pageOf } from './paging.ts';
import { nodesLimitingIo, topologyOf } from './placement.ts';
import {
  type Claims,
  type ContentSource,
  type NodeCapacities,
  NoSuchVolume,
  type SnapshotStore,
  type StoredVolume,
  type VolumeStore,
} from './volume-store.ts';

export interface ControllerPorts {
  readonly volumes: VolumeStore;
  readonly snapshots: SnapshotStore;
  readonly capacities: NodeCapacities;
  /** Absent without Kubernetes, where there are no claims. */
  readonly claims?: Claims;
}

/** The calls about volumes. They accept only ids of volumes, so none of them can change a snapshot. */
export function volumeCalls(ports: ControllerPorts) {
  const { volumes, capacities } = ports;
  const mustFind = async (id: string, signal: AbortSignal): Promise<StoredVolume> => {
    const volume = await volumes.find(id, signal);
    if (!volume) throw new NoSuchVolume(id);
    return volume;
  };

  return {
    async createVolume(request, { signal, log }) {
      const [use] = volumeUses(request.volumeCapabilities);
      const wanted = await wantedVolume(request, use, ports, signal);
      const volumeContext = contextFor(request.parameters, use);
      const volume = await volumes.create(wanted, signal);
      const { id, name, nodeName, sizeBytes } = volume;
      log.info({ volume: id, name, node: nodeName, sizeBytes: String(sizeBytes) }, 'volume created');
      return { volume: { ...volumeMessage(volume), volumeContext } };
    },

    async deleteVolume(request, { signal, log }) {
      const volume = required(request.volumeId, 'volume_id');
      await volumes.remove(volume, signal);
      log.info({ volume }, 'volume removed');
      return {};
    },

    async controllerExpandVolume(request, { signal, log }) {
      const id = required(request.volumeId, 'volume_id');
      const wantedBytes = grownSize(required(request.capacityRange, 'capacity_range'));
      const { volumeCapability } = request;
      const use = volumeCapability && volumeUse(volumeCapability, 'volume_capability');
      const { sizeBytes, isEncrypted } = await volumes.grow(id, wantedBytes, signal);
      log.info({ volume: id, sizeBytes: String(sizeBytes) }, 'volume grown');
      // Without a capability in the request, the node determines whether there is a filesystem to grow. It also has to grow the
      // decrypted device of an encrypted volume.
      return { capacityBytes: sizeBytes, nodeExpansionRequired: use?.kind !== 'block' || isEncrypted };
    },

    async controllerModifyVolume(request, { signal, log }) {
      const id = required(request.volumeId, 'volume_id');
      const limits = parseIoLimits(request.mutableParameters, 'mutable_parameters');
      const { nodeName } = await mustFind(id, signal);
      if (Object.keys(limits).length > 0) nodesLimitingIo([nodeName], capacities);
      await volumes.modify(id, limits, signal);
      log.info({ volume: id, ...request.mutableParameters }, 'volume modified');
      return {};
    },

    async controllerGetVolume(request, { signal }) {
      const volume = await mustFind(required(request.volumeId, 'volume_id'), signal);
      return { volume: volumeMessage(volume), status: {} };
    },

    async listVolumes(request, { signal }) {
      const page = pageOf(await volumes.list(signal), request);
      return { entries: page.items.map((volume) => ({ volume: volumeMessage(volume) })), nextToken: page.nextToken };
    },

    async validateVolumeCapabilities(request, { signal }) {
      const id = required(request.volumeId, 'volume_id');
      required(request.volumeCapabilities, 'volume_capabilities');
      const message = unsuitability(await mustFind(id, signal), request, capacities);
      if (message !== undefined) return { message };
      const { volumeContext, volumeCapabilities, parameters, mutableParameters } = request;
      return { confirmed: { volumeContext, volumeCapabilities, parameters, mutableParameters } };
    },
  } satisfies Implementation<typeof Controller>;
}

function volumeMessage({ id, nodeName, sizeBytes, source }: StoredVolume) {
  return {
    volumeId: id,
    capacityBytes: sizeBytes,
    accessibleTopology: [topologyOf(nodeName)],
    ...(source && { contentSource: contentSourceMessage(source) }),
  };
}

function contentSourceMessage({ kind, id }: ContentSource) {
  return kind === 'volume'
    ? { type: { case: kind, value: { volumeId: id } } }
    : { type: { case: kind, value: { snapshotId: id } } };
}

/** Why a volume cannot be used as requested; undefined if it can. */
export function unsuitability(
  volume: StoredVolume,
  request: ValidateVolumeCapabilitiesRequest,
  capacities: Pick<NodeCapacities, 'limitingIo'>,
): string | undefined {
  try {
    for (const use of volumeUses(request.volumeCapabilities)) {
      contextFor(request.volumeContext, use);
      contextFor(request.parameters, use);
    }
    refuseOtherParameters(volume, request.parameters);
    const limits = parseIoLimits(request.mutableParameters, 'mutable_parameters');
    if (Object.keys(limits).length > 0) nodesLimitingIo([volume.nodeName], capacities);
    return undefined;
  } catch (error) {
    const isRefusal = ['InvalidArgument', 'FailedPrecondition'].includes(codeOf(error));
    if (!isRefusal) throw error;
    return messageOf(error);
  }
}

/** The parameters that a volume was created with are fixed. */
function refuseOtherParameters(volume: StoredVolume, given: Readonly<Record<string, string>>): void {
  refuseUnknownParameters(given, Object.values(parameters));
  for (const [name, created] of [
    [parameters.deviceClass, volume.deviceClass],
    [parameters.lvcreateOptionClass, volume.lvcreateOptionClass],
    [parameters.encryption, volume.isEncrypted ? luks2 : ''],
  ] as const) {
    const wanted = given[name];
    if (wanted === undefined || wanted === created) continue;
    throw new InvalidInput(
      `volume ${volume.id} was created with ${name} ${created || 'unset'}, not ${wanted}; use the same`,
    );
  }
}

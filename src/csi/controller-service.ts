import { InvalidInput, MoorageError } from '../base/errors.ts';
import { claimParameters, parameterPrefixes, parameters } from '../names.ts';
import {
  type Controller,
  type CreateVolumeRequest,
  ControllerServiceCapability_RPC_Type as RpcType,
} from '../rpc/gen/csi/v1/csi_pb.ts';
import type { Implementation } from '../rpc/server.ts';
import { required } from './required.ts';
import { candidateNodes, nodeOf, topologyOf } from './topology.ts';
import { volumeSize } from './volume-size.ts';
import type { NodeCapacities, VolumeStore } from './volume-store.ts';
import { volumeUses } from './volume-use.ts';

export function controllerService({
  volumes,
  capacities,
}: {
  readonly volumes: Pick<VolumeStore, 'create' | 'find' | 'remove'>;
  readonly capacities: NodeCapacities;
}): Implementation<typeof Controller> {
  return {
    async createVolume(request, { signal, log }) {
      const name = required(request.name, 'name');
      const [use] = volumeUses(request.volumeCapabilities);
      const sizeBytes = volumeSize(request.capacityRange, use);
      refuseUnknownParameters(request.parameters);
      if (request.volumeContentSource) {
        throw new InvalidInput('volume_content_source is not offered; make an empty volume and copy the data into it');
      }
      const deviceClass = request.parameters[parameters.deviceClass] ?? '';
      const claim = claimOf(request);
      const nodeNames = candidateNodes(request.accessibilityRequirements) ?? roomiestNodes(capacities, deviceClass);

      const volume = await volumes.create(
        {
          name,
          nodeNames,
          deviceClass,
          lvcreateOptionClass: request.parameters[parameters.lvcreateOptionClass] ?? '',
          sizeBytes,
          ...(claim && { claim }),
        },
        signal,
      );
      log.info({ volume: volume.id, name, node: volume.nodeName, sizeBytes: String(volume.sizeBytes) }, 'volume made');
      return {
        volume: {
          volumeId: volume.id,
          capacityBytes: volume.sizeBytes,
          accessibleTopology: [topologyOf(volume.nodeName)],
        },
      };
    },

    async deleteVolume(request, { signal, log }) {
      const volume = required(request.volumeId, 'volume_id');
      await volumes.remove(volume, signal);
      log.info({ volume }, 'volume removed');
      return {};
    },

    async getCapacity({ accessibleTopology, parameters: given }) {
      const free = capacities.freeBytes(given[parameters.deviceClass] ?? '');
      if (!accessibleTopology) return roomOf([...free.values()]);
      return roomOf([free.get(nodeOf(accessibleTopology) ?? '') ?? 0n]);
    },

    async validateVolumeCapabilities(request, { signal }) {
      const id = required(request.volumeId, 'volume_id');
      volumeUses(request.volumeCapabilities);
      if (!(await volumes.find(id, signal))) throw new NoSuchVolume(id);
      const { volumeContext, volumeCapabilities, parameters: given, mutableParameters } = request;
      return { confirmed: { volumeContext, volumeCapabilities, parameters: given, mutableParameters } };
    },

    controllerGetCapabilities: async () => ({
      capabilities: [RpcType.CREATE_DELETE_VOLUME, RpcType.GET_CAPACITY].map((type) => ({
        type: { case: 'rpc' as const, value: { type } },
      })),
    }),
  };
}

/** A mistyped parameter would silently give another volume than the one that was meant. */
function refuseUnknownParameters(given: Readonly<Record<string, string>>): void {
  const known: readonly string[] = Object.values(parameters);
  const unknown = Object.keys(given).find(
    (key) => parameterPrefixes.some((prefix) => key.startsWith(prefix)) && !known.includes(key),
  );
  if (unknown === undefined) return;
  throw new InvalidInput(`parameters hold ${JSON.stringify(unknown)}, which is unknown; known are ${known.join(', ')}`);
}

function claimOf(request: CreateVolumeRequest): string | undefined {
  const namespace = request.parameters[claimParameters.namespace];
  const name = request.parameters[claimParameters.name];
  return namespace && name ? `${namespace}/${name}` : undefined;
}

/** All that have the class, so that a repeated call accepts the volume of the first, wherever that found room. */
function roomiestNodes(capacities: NodeCapacities, deviceClass: string): readonly [string, ...string[]] {
  const byRoom = [...capacities.freeBytes(deviceClass)].sort(([, a], [, b]) => (a < b ? 1 : -1));
  const [node, ...others] = byRoom.map(([name]) => name);
  if (node === undefined) throw new NoNodeOffers(deviceClass);
  return [node, ...others];
}

/** No volume can be larger than the roomiest node, however much there is in all. */
function roomOf(free: readonly bigint[]): { availableCapacity: bigint; maximumVolumeSize: bigint } {
  return {
    availableCapacity: free.reduce((sum, bytes) => sum + bytes, 0n),
    maximumVolumeSize: free.reduce((most, bytes) => (bytes > most ? bytes : most), 0n),
  };
}

export class NoNodeOffers extends MoorageError {
  readonly code = 'ResourceExhausted';

  constructor(deviceClass: string) {
    const which = deviceClass === '' ? 'a default device class' : `device class ${deviceClass}`;
    super(`no node offers ${which}; check the configuration of the nodes, and that moorage node runs there`);
  }
}

export class NoSuchVolume extends MoorageError {
  readonly code = 'NotFound';

  constructor(id: string) {
    super(`there is no volume ${id}; check the volume handle of the PersistentVolume`);
  }
}

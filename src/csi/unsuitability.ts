import { codeOf, InvalidInput, messageOf } from '../base/errors.ts';
import { parameters } from '../names.ts';
import type { ValidateVolumeCapabilitiesRequest } from '../rpc/gen/csi/v1/csi_pb.ts';
import { parseIoLimits } from './io-limits.ts';
import { refuseUnknownParameters } from './parameters.ts';
import { limiting } from './placement.ts';
import { contextFor } from './volume-context.ts';
import type { NodeCapacities, StoredVolume } from './volume-store.ts';
import { volumeUses } from './volume-use.ts';

/** Why a volume cannot be used as the request says; undefined if it can. */
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
    if (Object.keys(limits).length > 0) limiting([volume.nodeName], capacities);
    return undefined;
  } catch (error) {
    const isRefusal = ['InvalidArgument', 'FailedPrecondition'].includes(codeOf(error));
    if (!isRefusal) throw error;
    return messageOf(error);
  }
}

/** What a volume was made with cannot be had from it in another way. */
function refuseOtherParameters(volume: StoredVolume, given: Readonly<Record<string, string>>): void {
  refuseUnknownParameters(given, Object.values(parameters));
  for (const [name, made] of [
    [parameters.deviceClass, volume.deviceClass],
    [parameters.lvcreateOptionClass, volume.lvcreateOptionClass],
  ] as const) {
    const wanted = given[name];
    if (wanted === undefined || wanted === made) continue;
    throw new InvalidInput(`volume ${volume.id} was made with ${name} ${made || 'left out'}, not ${wanted}; use that`);
  }
}

import { VolumeCapability_AccessMode_Mode as Mode } from '../../src/rpc/gen/csi/v1/csi_pb.ts';

/** The capability of every volume. */
export const filesystem = {
  accessMode: { mode: Mode.SINGLE_NODE_WRITER },
  accessType: { case: 'mount', value: { fsType: 'ext4' } },
} as const;

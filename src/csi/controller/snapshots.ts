import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { Controller } from '../../rpc/gen/csi/v1/csi_pb.ts';
import type { Implementation } from '../../rpc/server.ts';
import { refuseUnknownParameters } from '../class-parameters.ts';
import { required } from '../required.ts';
import { pageOf } from './paging.ts';
import { NoSuchSnapshot, type SnapshotStore, type StoredSnapshot } from './volume-store.ts';

/** The calls about snapshots. They accept only ids of snapshots, so none of them can change a volume. */
export function snapshotCalls({ snapshots }: { readonly snapshots: SnapshotStore }) {
  return {
    async createSnapshot(request, { signal, log }) {
      const name = required(request.name, 'name');
      const sourceId = required(request.sourceVolumeId, 'source_volume_id');
      refuseUnknownParameters(request.parameters, []);
      const snapshot = await snapshots.create({ name, sourceId }, signal);
      log.info({ snapshot: snapshot.id, name, volume: sourceId, node: snapshot.nodeName }, 'snapshot created');
      return { snapshot: snapshotMessage(snapshot) };
    },

    async deleteSnapshot(request, { signal, log }) {
      const snapshot = required(request.snapshotId, 'snapshot_id');
      await snapshots.remove(snapshot, signal);
      log.info({ snapshot }, 'snapshot removed');
      return {};
    },

    async getSnapshot(request, { signal }) {
      const id = required(request.snapshotId, 'snapshot_id');
      const snapshot = await snapshots.find(id, signal);
      if (!snapshot) throw new NoSuchSnapshot(id);
      return { snapshot: snapshotMessage(snapshot) };
    },

    async listSnapshots(request, { signal }) {
      const page = pageOf(await matching(snapshots, request, signal), request);
      const entries = page.items.map((snapshot) => ({ snapshot: snapshotMessage(snapshot) }));
      return { entries, nextToken: page.nextToken };
    },
  } satisfies Implementation<typeof Controller>;
}

async function matching(
  snapshots: SnapshotStore,
  { snapshotId, sourceVolumeId }: { readonly snapshotId: string; readonly sourceVolumeId: string },
  signal: AbortSignal,
): Promise<readonly StoredSnapshot[]> {
  const isOfSource = ({ sourceId }: StoredSnapshot) => sourceVolumeId === '' || sourceId === sourceVolumeId;
  if (snapshotId === '') return (await snapshots.list(signal)).filter(isOfSource);
  const found = await snapshots.find(snapshotId, signal);
  return found && isOfSource(found) ? [found] : [];
}

function snapshotMessage({ id, sourceId, sizeBytes, createdAt, isReady }: StoredSnapshot) {
  return {
    snapshotId: id,
    sourceVolumeId: sourceId,
    sizeBytes,
    creationTime: timestampFromDate(createdAt),
    readyToUse: isReady,
  };
}

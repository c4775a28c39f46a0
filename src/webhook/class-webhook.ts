import { driverName } from '../api/names.ts';
import {
  type ClassFindings,
  checkSnapshotClass,
  checkStorageClass,
  type DeviceClassesOfNodes,
} from '../csi/class-check.ts';
import type { Answer } from '../http/json-server.ts';
import type { KubeObject, StorageClass } from '../kube/resource.ts';
import { type Admission, admission } from './admission.ts';

interface VolumeSnapshotClass extends KubeObject {
  readonly driver?: string;
  readonly parameters?: Readonly<Record<string, string>>;
}

/** Refuses a new StorageClass with which volumes could not be created as meant, and warns of one that may not work. */
export function storageClassWebhook(served: () => DeviceClassesOfNodes): Answer {
  return admission<StorageClass>('StorageClass', ({ object }) =>
    object.provisioner === driverName ? verdict(checkStorageClass(object, served())) : { allowed: true },
  );
}

/** The same for a VolumeSnapshotClass. */
export function snapshotClassWebhook(): Answer {
  return admission<VolumeSnapshotClass>('VolumeSnapshotClass', ({ object }) =>
    object.driver === driverName ? verdict(checkSnapshotClass(object.parameters ?? {})) : { allowed: true },
  );
}

function verdict({ errors, warnings }: ClassFindings): Admission {
  if (errors.length === 0) return { allowed: true, warnings };
  return { allowed: false, warnings, status: { code: 422, message: errors.join('; also: ') } };
}

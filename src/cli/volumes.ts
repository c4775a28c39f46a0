import { claimKey } from '../api/names.ts';
import { MoorageError } from '../base/errors.ts';
import { tagValue } from '../engine/names-and-tags.ts';
import type { LogicalVolume } from '../rpc/gen/lvmd/lvmd_pb.ts';
import type { EngineClient } from './engine-client.ts';

/** A volume as `-o json` shows it. Programs depend on these names. */
export interface ShownVolume {
  readonly name: string;
  readonly deviceClass: string;
  readonly sizeBytes: number;
  readonly device: string;
  readonly access: 'ro' | 'rw';
  /** The source, if it is a snapshot. */
  readonly origin?: string;
  /** The claim in Kubernetes that it belongs to. */
  readonly claim?: string;
  readonly tags: readonly string[];
  readonly attributes: string;
}

export class NoSuchVolume extends MoorageError {
  readonly code = 'NotFound';

  constructor(name: string) {
    super(`there is no volume ${name} on this node; see moorage volume ls`);
  }
}

/** The engine answers these from memory. */
const timeoutMs = 30_000;

export function showVolume(volume: LogicalVolume, deviceClass: string): ShownVolume {
  const claim = tagValue(volume.tags, claimKey);
  return {
    name: volume.name,
    deviceClass,
    sizeBytes: Number(volume.sizeBytes),
    device: volume.path,
    access: volume.attr[1]?.toLowerCase() === 'r' ? 'ro' : 'rw',
    ...(volume.origin && { origin: volume.origin }),
    ...(claim && { claim }),
    tags: volume.tags,
    attributes: volume.attr,
  };
}

/** The volumes of one class, or of all classes that can be served now. */
export async function listVolumes(
  engine: EngineClient,
  deviceClass: string,
  signal: AbortSignal,
): Promise<readonly ShownVolume[]> {
  const classes = deviceClass ? [deviceClass] : await classNames(engine, signal);
  const lists = await Promise.all(
    classes.map(async (name) => {
      const { volumes } = await engine.groups.getLVList({ deviceClass: name }, { timeoutMs, signal });
      return volumes.map((volume) => showVolume(volume, name));
    }),
  );
  return lists.flat();
}

/** The class of a volume; includes volumes that are being erased, so that their removal can be resumed. */
export async function classHolding(engine: EngineClient, name: string, signal: AbortSignal): Promise<string> {
  const { pools } = await engine.engine.listPools({}, { timeoutMs, signal });
  const erasing = pools.find(({ erasures }) => erasures.some((erasure) => erasure.name === name));
  if (erasing) return erasing.deviceClass;
  const found = (await listVolumes(engine, '', signal)).find((volume) => volume.name === name);
  if (!found) throw new NoSuchVolume(name);
  return found.deviceClass;
}

/** The volume, if it is still listed. */
export async function findVolume(
  engine: EngineClient,
  deviceClass: string,
  name: string,
  signal: AbortSignal,
): Promise<ShownVolume | undefined> {
  return (await listVolumes(engine, deviceClass, signal)).find((volume) => volume.name === name);
}

async function classNames(engine: EngineClient, signal: AbortSignal): Promise<readonly string[]> {
  const { pools } = await engine.engine.listPools({}, { timeoutMs, signal });
  return pools.filter(({ unavailable }) => unavailable === '').map(({ deviceClass }) => deviceClass);
}

import type { Surroundings } from '../base/command.ts';
import { codeOf, MoorageError, messageOf } from '../base/errors.ts';
import { createdTag } from '../engine/names-and-tags.ts';
import type { EngineClient } from './engine-client.ts';
import { Interrupted } from './exit-code.ts';
import { Progress } from './progress.ts';
import { classHolding, findVolume } from './volumes.ts';

/** At most as long as the engine works on one call; longer work continues, and the call is repeated. */
const callTimeoutMs = 5 * 60_000;

interface Named {
  readonly name: string;
  readonly deviceClass: string;
}

/** Waits until all are gone, however long their erasure takes. None is removed if one of the names is wrong. */
export async function removeVolumes(
  engine: EngineClient,
  names: readonly string[],
  force: boolean,
  surroundings: Surroundings,
): Promise<void> {
  const volumes: Named[] = [];
  for (const name of names) volumes.push(await removable(engine, name, force, surroundings.signal));
  for (const volume of volumes) {
    await removeWithProgress(engine, volume, surroundings);
    surroundings.print(`volume ${volume.name} removed`);
  }
}

async function removable(engine: EngineClient, name: string, force: boolean, signal: AbortSignal): Promise<Named> {
  const deviceClass = await classHolding(engine, name, signal);
  const volume = await findVolume(engine, deviceClass, name, signal);
  if (volume?.claim && !force) throw new BelongsToClaim(name, volume.claim);
  if (volume && !volume.tags.includes(createdTag) && !force) throw new CreatedByOthers(name);
  return { name, deviceClass };
}

async function removeWithProgress(engine: EngineClient, volume: Named, surroundings: Surroundings): Promise<void> {
  const { screen, signal } = surroundings;
  using progress = new Progress(screen, `erasing ${volume.name}`);
  const removed = new AbortController();
  const watching = showErasure(engine, volume, progress, AbortSignal.any([signal, removed.signal]));
  try {
    let isRemoved = false;
    while (!isRemoved) isRemoved = await remove(engine, volume, signal);
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new Interrupted(`stopped waiting for the removal of ${volume.name}; an erasure that has started continues`);
  } finally {
    removed.abort();
    await watching;
  }
}

/** False if it takes longer than one call; it continues meanwhile. */
async function remove(engine: EngineClient, volume: Named, signal: AbortSignal): Promise<boolean> {
  try {
    await engine.volumes.removeLV(volume, { timeoutMs: callTimeoutMs, signal });
    return true;
  } catch (error) {
    if (codeOf(error) === 'DeadlineExceeded') return false;
    throw error;
  }
}

/** For display only: a failure here must not stop the removal. */
async function showErasure(
  engine: EngineClient,
  volume: Named,
  progress: Progress,
  signal: AbortSignal,
): Promise<void> {
  try {
    for await (const { erasure } of engine.engine.watchErasure(volume, { signal })) {
      if (erasure) progress.update(erasure.doneBytes, erasure.totalBytes);
    }
  } catch (error) {
    if (!signal.aborted) progress.note(`cannot show progress: ${messageOf(error)}`);
  }
}

export class BelongsToClaim extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(name: string, claim: string) {
    super(`volume ${name} belongs to claim ${claim}; delete the claim instead, or pass --force if its cluster is gone`);
  }
}

/** A volume group may also hold volumes of an administrator, or of a TopoLVM cluster. */
export class CreatedByOthers extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(name: string) {
    super(`volume ${name} was not created by Moorage; pass --force if its data is really to be deleted`);
  }
}

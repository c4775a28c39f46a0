import { localPvAnnotations, pvProtectionFinalizer } from '../../api/local-pv.ts';
import { InvalidInput } from '../../base/errors.ts';
import { type Defaults, noDefaults } from '../../local-pv/defaults.ts';
import { requestedPlace, type StaticVolume, staticVolume, wasProcessed } from '../../local-pv/static-volume.ts';
import { findOwn, findVolume, isNowhere, poolAt, type StaticVolumePools } from './find-volume.ts';
import type { Found, Orders } from './next-step.ts';
import type { StoredPersistentVolume } from './static-volume-writer.ts';

/** What the next step is decided on. */
export interface Observation {
  readonly wanted: StaticVolume;
  readonly orders: Orders;
  readonly found: Found;
}

interface Surroundings {
  readonly pools: StaticVolumePools;
  /** Throws if there are no valid ones. */
  readonly defaults: () => Defaults;
  readonly mountBase: string;
  /** Whether this agent empties released volumes for the next claim. */
  readonly releases: boolean;
}

/** Throws if the request is invalid, or its pool unavailable. Undefined if such a request is withdrawn: nothing was created for it. */
export async function observe(
  pv: StoredPersistentVolume,
  surroundings: Surroundings,
  signal: AbortSignal,
): Promise<Observation | undefined> {
  const { pools, mountBase, releases } = surroundings;
  const { metadata } = pv;
  const isDeleting = metadata.deletionTimestamp !== undefined;
  try {
    const wanted = staticVolume(pv, defaultsFor(pv, surroundings), mountBase);
    const orders = {
      isDeleting,
      isBound: metadata.finalizers?.includes(pvProtectionFinalizer) ?? false,
      isRemoved: metadata.annotations?.[localPvAnnotations.removed] === 'true',
      releasedBy: releases && wanted.autoRelease && wanted.onRelease !== 'keep' ? unansweredRelease(pv) : undefined,
    };
    return { wanted, orders, found: await find(wanted, isDeleting, pools, signal) };
  } catch (error) {
    const mayHaveVolume = wasProcessed(metadata.annotations) || findOwn(pools, metadata) !== undefined;
    if (error instanceof InvalidInput && isDeleting && !mayHaveVolume) return undefined;
    throw error;
  }
}

/** The uid of the deleted claim, until the agent has answered that the volume is ready for the next one. */
export function unansweredRelease({ metadata, spec, status }: StoredPersistentVolume): string | undefined {
  const claimUid = status?.phase === 'Released' ? spec?.claimRef?.uid : undefined;
  return claimUid === metadata.annotations?.[localPvAnnotations.released] ? undefined : claimUid;
}

/** All groups that these volumes are in, or should be. One whose request is invalid stays in the group that it names. */
export function groupsOf(volumes: readonly StoredPersistentVolume[], surroundings: Surroundings): ReadonlySet<string> {
  return new Set(
    volumes.flatMap((pv) => {
      try {
        const place = requestedPlace(pv, defaultsFor(pv, surroundings));
        return 'volumeGroup' in place ? [place.volumeGroup] : [];
      } catch (error) {
        if (error instanceof InvalidInput) return [];
        throw error;
      }
    }),
  );
}

/** Annotations have all that is needed to mount a processed volume, but not what happens to its data. */
function defaultsFor({ metadata, status }: StoredPersistentVolume, { defaults }: Surroundings): Defaults {
  try {
    return defaults();
  } catch (error) {
    const isOnlyMounted = metadata.deletionTimestamp === undefined && status?.phase !== 'Released';
    if (isOnlyMounted && wasProcessed(metadata.annotations)) return noDefaults;
    throw error;
  }
}

async function find(
  wanted: StaticVolume,
  isDeleting: boolean,
  pools: StaticVolumePools,
  signal: AbortSignal,
): Promise<Found> {
  try {
    const place = poolAt(pools, wanted.place);
    const found = findVolume(pools, wanted, place);
    if (found.kind !== 'nothing') return found;
    await place.refresh(signal); // an administrator may have created the volume a moment ago
    return findVolume(pools, wanted, place);
  } catch (error) {
    const own = findOwn(pools, wanted);
    if (own) return { kind: 'own', ...own };
    if (isDeleting && !wanted.isProcessed && isNowhere(error)) return { kind: 'nowhere' };
    throw error;
  }
}

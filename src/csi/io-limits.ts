import { ioLimitNames } from '../api/names.ts';
import { InvalidInput } from '../base/errors.ts';
import { parseQuantity } from '../base/quantity.ts';

export type IoLimit = keyof typeof ioLimitNames;

/** The IO limits of a volume; an absent limit means unlimited. */
export type IoLimits = Readonly<Partial<Record<IoLimit, bigint>>>;

/** What to do if the sidecars do not act on a VolumeAttributesClass. */
export const sidecarsForLimits =
  'IO limits need csi-provisioner 6 and csi-resizer 2 or newer on Kubernetes 1.34 or newer, ' +
  'or an API server that serves storage.k8s.io/v1beta1 with older ones; see docs/controller.md#io-limits';

const limitsByName = new Map(Object.entries(ioLimitNames).map(([limit, name]) => [name as string, limit as IoLimit]));

/** The limits in the parameters of a VolumeAttributesClass; errors name `field`. */
export function parseIoLimits(values: Readonly<Record<string, string>>, field: string): IoLimits {
  const limits: Partial<Record<IoLimit, bigint>> = {};
  for (const [name, value] of Object.entries(values)) {
    const limit = limitsByName.get(name);
    if (!limit) {
      const known = [...limitsByName.keys()].join(', ');
      throw new InvalidInput(`unknown name ${JSON.stringify(name)} in ${field}; use one of ${known}`);
    }
    limits[limit] = limitOf(value, `${field} ${name}`);
  }
  return limits;
}

/** The limits as names and plain numbers, to store with a volume. */
export function formatIoLimits(limits: IoLimits): Readonly<Record<string, string>> {
  const set = [...limitsByName].flatMap(([name, limit]) => {
    const value = limits[limit];
    return value === undefined ? [] : [[name, String(value)] as const];
  });
  return Object.fromEntries(set);
}

/** The limits among other entries, such as the annotations of an object. */
export function ioLimitsIn(values: Readonly<Record<string, string>>, field: string): IoLimits {
  const ours = Object.entries(values).filter(([name]) => limitsByName.has(name));
  return parseIoLimits(Object.fromEntries(ours), field);
}

function limitOf(value: string, field: string): bigint {
  let limit: bigint;
  try {
    limit = parseQuantity(value);
  } catch (error) {
    throw new InvalidInput(`${field} is ${JSON.stringify(value)}; write a number with a unit, such as 100Mi or 500`, {
      cause: error,
    });
  }
  if (limit <= 0n) throw new InvalidInput(`${field} is ${value}; set it above zero, or leave it out for no limit`);
  return limit;
}

import { capacityAnnotationPrefix } from '../names.ts';

/** A Pod or a Node, as far as the extender looks at it. */
export interface Annotated {
  readonly metadata: {
    readonly name?: string | undefined;
    readonly annotations?: Readonly<Record<string, string>> | null | undefined;
  };
}

/** What the pod webhook wrote on a pod, by device class; what is no number was written by somebody else and asks for nothing. */
export function requestedBytes(pod: Annotated): ReadonlyMap<string, bigint> {
  const requested = new Map<string, bigint>();
  for (const [key, value] of Object.entries(pod.metadata.annotations ?? {})) {
    const isRequest = key.startsWith(capacityAnnotationPrefix) && /^\d+$/.test(value);
    if (isRequest) requested.set(key.slice(capacityAnnotationPrefix.length), BigInt(value));
  }
  return requested;
}

/** What a node wrote on itself for a device class; undefined if it wrote nothing. */
export function capacityText(node: Annotated, deviceClass: string): string | undefined {
  return node.metadata.annotations?.[`${capacityAnnotationPrefix}${deviceClass}`];
}

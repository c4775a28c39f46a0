import { capacityAnnotationPrefix, defaultCapacityAnnotation, ioLimitsAnnotation } from '../../api/names.ts';
import type { DeviceClassesOfNodes } from '../../csi/class-check.ts';
import type { NodeCapacities } from '../../csi/controller/volume-store.ts';
import type { Informer } from '../../kube/informer.ts';
import type { Node, Stored } from '../../kube/resource.ts';
import { isLeaving } from '../node-removal/node-removal.ts';

/** The fields that we keep of a Node: a cluster has many Nodes, and they are large. */
export interface AnnotatedNode {
  readonly name: string;
  /** By annotation name. */
  readonly freeBytes: ReadonlyMap<string, bigint>;
  readonly limitsIo: boolean;
  /** Keys of its taints. */
  readonly taints: readonly string[];
  /** Whether the Node is being deleted and has our finalizer. */
  readonly isLeaving: boolean;
}

export function annotatedNode(node: Stored<Node>): AnnotatedNode {
  const { metadata } = node;
  const annotations = Object.entries(metadata.annotations ?? {}).filter(
    ([key, value]) => key.startsWith(capacityAnnotationPrefix) && /^\d+$/.test(value),
  );
  return {
    name: metadata.name,
    freeBytes: new Map(annotations.map(([key, value]) => [key, BigInt(value)])),
    limitsIo: metadata.annotations?.[ioLimitsAnnotation] === 'true',
    taints: node.spec?.taints?.map(({ key }) => key) ?? [],
    isLeaving: isLeaving(node),
  };
}

/**
 * The largest new volume that fits; undefined if the node does not have the device class, or is being deleted: a new volume
 * there would be lost with it. Empty: its default class.
 */
export function freeBytesOf(node: AnnotatedNode | undefined, deviceClass: string): bigint | undefined {
  if (node?.isLeaving) return undefined;
  const annotation = deviceClass === '' ? defaultCapacityAnnotation : `${capacityAnnotationPrefix}${deviceClass}`;
  return node?.freeBytes.get(annotation);
}

/** Free capacity and features of the nodes, from their annotations. */
export class AnnotatedCapacities implements NodeCapacities {
  readonly #nodes: Pick<Informer<Node, AnnotatedNode>, 'list'>;

  constructor(nodes: Pick<Informer<Node, AnnotatedNode>, 'list'>) {
    this.#nodes = nodes;
  }

  freeBytes(deviceClass: string): ReadonlyMap<string, bigint> {
    const free = new Map<string, bigint>();
    for (const node of this.#nodes.list()) {
      const bytes = freeBytesOf(node, deviceClass);
      if (bytes !== undefined) free.set(node.name, bytes);
    }
    return free;
  }

  /** The device classes of each node that reports and stays, '' for a default one. */
  deviceClasses(): DeviceClassesOfNodes {
    const staying = this.#nodes.list().filter(({ isLeaving, freeBytes }) => !isLeaving && freeBytes.size > 0);
    const className = (annotation: string) =>
      annotation === defaultCapacityAnnotation ? '' : annotation.slice(capacityAnnotationPrefix.length);
    return new Map(staying.map(({ name, freeBytes }) => [name, new Set([...freeBytes.keys()].map(className))]));
  }

  leaving(): ReadonlySet<string> {
    const leaving = this.#nodes.list().filter(({ isLeaving }) => isLeaving);
    return new Set(leaving.map(({ name }) => name));
  }

  limitingIo(): ReadonlySet<string> {
    const limiting = this.#nodes.list().filter(({ limitsIo }) => limitsIo);
    return new Set(limiting.map(({ name }) => name));
  }

  mayLimitIo(): boolean {
    const isKnown = this.#nodes.list().some(({ freeBytes }) => freeBytes.size > 0);
    return !isKnown || this.limitingIo().size > 0;
  }
}

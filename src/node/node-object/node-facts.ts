import { capacityAnnotationPrefix, ioLimitsAnnotation, nodeFinalizer } from '../../api/names.ts';
import type { Node, Stored } from '../../kube/resource.ts';

/** The cached part of this node's Node object, which is large. */
export interface NodeFacts {
  readonly uid: string;
  /** Only those that Moorage sets. */
  readonly annotations: Readonly<Record<string, string>>;
  readonly finalizers: readonly string[];
  readonly deleting: boolean;
  readonly resourceVersion: string;
}

export function nodeFactsOf({ metadata }: Stored<Node>): NodeFacts {
  const { uid, annotations = {}, finalizers = [], deletionTimestamp, resourceVersion } = metadata;
  return {
    uid,
    annotations: Object.fromEntries(Object.entries(annotations).filter(([key]) => isOurs(key))),
    finalizers,
    deleting: deletionTimestamp !== undefined,
    resourceVersion,
  };
}

/** The merge patch for the Node's metadata; undefined if it is up to date. */
export function changesToNode(current: NodeFacts, wanted: ReadonlyMap<string, string>): object | undefined {
  const annotations: Record<string, string | null> = {};
  for (const [key, value] of wanted) if (current.annotations[key] !== value) annotations[key] = value;
  for (const key of Object.keys(current.annotations)) if (!wanted.has(key)) annotations[key] = null;
  const { finalizers, resourceVersion, deleting } = current;
  // Kubernetes does not allow new finalizers on a Node that is being deleted.
  const isUnprotected = !deleting && !finalizers.includes(nodeFinalizer);
  if (Object.keys(annotations).length === 0 && !isUnprotected) return undefined;
  return {
    annotations,
    // The patch replaces the whole list, so it must fail if the list changed meanwhile.
    ...(isUnprotected && { finalizers: [...finalizers, nodeFinalizer], resourceVersion }),
  };
}

function isOurs(annotation: string): boolean {
  return annotation.startsWith(capacityAnnotationPrefix) || annotation === ioLimitsAnnotation;
}

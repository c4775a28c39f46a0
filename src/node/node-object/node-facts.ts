import { capacityAnnotationPrefix, ioLimitsAnnotation, nodeFinalizer } from '../../api/names.ts';
import type { Node, Stored } from '../../kube/resource.ts';

/** What we keep of this node's own Node: that is large, and the rest of it is nobody's business here. */
export interface NodeFacts {
  /** Only those that are ours to set. */
  readonly annotations: Readonly<Record<string, string>>;
  readonly finalizers: readonly string[];
  readonly deleting: boolean;
  readonly resourceVersion: string;
}

export function nodeFactsOf({ metadata }: Stored<Node>): NodeFacts {
  const { annotations = {}, finalizers = [], deletionTimestamp, resourceVersion } = metadata;
  return {
    annotations: Object.fromEntries(Object.entries(annotations).filter(([key]) => isOurs(key))),
    finalizers,
    deleting: deletionTimestamp !== undefined,
    resourceVersion,
  };
}

/** What to merge into the Node's metadata so that it says what it should; undefined if it does. */
export function changesToNode(current: NodeFacts, wanted: ReadonlyMap<string, string>): object | undefined {
  const annotations: Record<string, string | null> = {};
  for (const [key, value] of wanted) if (current.annotations[key] !== value) annotations[key] = value;
  for (const key of Object.keys(current.annotations)) if (!wanted.has(key)) annotations[key] = null;
  const { finalizers, resourceVersion, deleting } = current;
  // To a Node that is being deleted no finalizer can be added: whoever deletes it was faster.
  const isUnprotected = !deleting && !finalizers.includes(nodeFinalizer);
  if (Object.keys(annotations).length === 0 && !isUnprotected) return undefined;
  return {
    annotations,
    // A list is replaced as a whole, so nobody may have changed it meanwhile.
    ...(isUnprotected && { finalizers: [...finalizers, nodeFinalizer], resourceVersion }),
  };
}

function isOurs(annotation: string): boolean {
  return annotation.startsWith(capacityAnnotationPrefix) || annotation === ioLimitsAnnotation;
}

import type { AuditEntry } from '../../worlds/cluster/audit-log.ts';
import type { Rendered } from '../chart/chart.ts';

/** One right of a role: a verb on a resource, perhaps only on one name. */
export interface Right {
  readonly verb: string;
  readonly group: string;
  /** With its subresource. */
  readonly resource: string;
  readonly name?: string;
}

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/** Each right of a Role or ClusterRole. */
export function rightsOf(role: Rendered): readonly Right[] {
  return (role['rules'] as readonly Rule[]).flatMap(({ apiGroups, resources, resourceNames = [undefined], verbs }) =>
    apiGroups.flatMap((group) =>
      resources.flatMap((resource) =>
        resourceNames.flatMap((name) => verbs.map((verb) => ({ verb, group, resource, ...(name && { name }) }))),
      ),
    ),
  );
}

/**
 * Whether the right allows the request. A watch that starts with the current state uses the right to list, too: on a server
 * that cannot do that, its program lists instead.
 */
export function uses({ verb, requestURI, objectRef, responseStatus }: AuditEntry, right: Right): boolean {
  if (!objectRef) return false;
  const { apiGroup = '', resource = '', subresource, name } = objectRef;
  const lists = right.verb === 'list' && verb === 'watch' && requestURI.includes('sendInitialEvents=true');
  const applied = right.verb === 'create' && verb === 'patch' && responseStatus?.code === 201; // created by server-side apply
  return (
    (verb === right.verb || lists || applied) &&
    apiGroup === right.group &&
    (subresource ? `${resource}/${subresource}` : resource) === right.resource &&
    (right.name === undefined || right.name === name)
  );
}

export function formatRight({ verb, group, resource, name }: Right): string {
  return `${verb} ${resource}${group && `.${group}`}${name ? ` ${name}` : ''}`;
}

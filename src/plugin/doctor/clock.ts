import type { KubeObject, Lease, Node, Stored } from '../../kube/resource.ts';
import { area, type Finding } from './finding.ts';

/** Certificates and tokens of moves tolerate less than a minute; the API server writes whole seconds. */
const toleratedMs = 5_000;

/**
 * When the API server last stored a change of a field, on its own clock; of the object, if nobody owns the field. The path has
 * the names of managedFields: `f:spec`, `f:renewTime`.
 */
export function storedMs({ metadata }: Stored<KubeObject>, path: readonly string[]): number {
  const owners = (metadata.managedFields ?? []).filter(({ fieldsV1 }) => {
    const owned = path.reduce<unknown>((fields, name) => (fields as Fields | undefined)?.[name], fieldsV1);
    return owned !== undefined;
  });
  const times = owners.map(({ time }) => Date.parse(time ?? '')).filter((time) => !Number.isNaN(time));
  return Math.max(Date.parse(metadata.creationTimestamp), ...times);
}

type Fields = Readonly<Record<string, unknown>>;

export function renewalStoredMs(lease: Stored<Lease>): number {
  return storedMs(lease, ['f:spec', 'f:renewTime']);
}

/**
 * A kubelet writes the time of its node into its Lease, and the API server adds its own time to each write, so that both
 * clocks can be compared whenever they are read.
 */
export const clock = area({
  name: 'clock',
  needs: ['nodes', 'nodeLeases'],
  judge({ nodes, nodeLeases }) {
    const leases = new Map(nodeLeases.map((lease) => [lease.metadata.name, lease]));
    const offsets = nodes.flatMap((node) => {
      const lease = leases.get(node.metadata.name);
      const renewedMs = Date.parse(lease?.spec?.renewTime ?? '');
      return lease && !Number.isNaN(renewedMs) ? [{ node, offsetMs: renewedMs - renewalStoredMs(lease) }] : [];
    });
    const wrong = offsets.filter(({ offsetMs }) => Math.abs(offsetMs) > toleratedMs);
    return {
      summary: `${offsets.length} of ${nodes.length} nodes compared with the API server`,
      findings: wrong.map(({ node, offsetMs }) => findingOf(node, offsetMs)),
    };
  },
});

function findingOf({ metadata }: Stored<Node>, offsetMs: number): Finding {
  const seconds = Math.round(Math.abs(offsetMs) / 1000);
  return {
    severity: 'warning',
    what: `The clock of node ${metadata.name} is ${seconds} s ${offsetMs > 0 ? 'ahead of' : 'behind'} that of the API server.`,
    evidence: [`Lease kube-node-lease/${metadata.name}: renewTime against the time at which it was stored`],
    fix: 'timedatectl   # on the node and on the control plane: is the clock synchronized?',
  };
}

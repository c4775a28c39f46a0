import { bytesOf } from '../../api/logical-volume.ts';
import {
  capacityAnnotationPrefix,
  defaultCapacityAnnotation,
  driverName,
  parameters,
  topologyKey,
} from '../../api/names.ts';
import { formatBytes } from '../../base/quantity.ts';
import type { CsiStorageCapacity, Node, Stored } from '../../kube/resource.ts';
import { freeBytesOn } from '../moves/evacuation-plan.ts';
import { count } from '../terminal.ts';
import { storedMs } from './clock.ts';
import { area, type Finding } from './finding.ts';

/** The controller writes at most once a second for each node and class. */
const settledMs = 30_000;

/** What the scheduler reads, against what the nodes report. */
export const capacity = area({
  name: 'capacity',
  needs: ['nodes', 'csiNodes', 'csiDrivers', 'storageClasses', 'capacities'],
  judge({ nodes, csiNodes, csiDrivers, storageClasses, capacities, nowMs }) {
    const driver = csiDrivers.find(({ metadata }) => metadata.name === driverName);
    if (!driver?.spec.storageCapacity) return { summary: 'not tracked for the scheduler', findings: [] };
    const registered = new Set(
      csiNodes
        .filter(({ spec }) => spec.drivers.some(({ name }) => name === driverName))
        .map(({ metadata }) => metadata.name),
    );
    const published = new Map(capacities.map((each) => [keyOf(each), each]));
    // The scheduler has no part in the placement of volumes that are created immediately.
    const scheduled = storageClasses.filter(
      ({ provisioner, volumeBindingMode }) =>
        provisioner === driverName && volumeBindingMode === 'WaitForFirstConsumer',
    );
    const settled = nodes.filter(
      (node) =>
        registered.has(node.metadata.name) && !node.metadata.deletionTimestamp && nowMs - changedMs(node) > settledMs,
    );
    const findings = settled.flatMap((node) =>
      scheduled.flatMap((storageClass): Finding[] => {
        const free = freeBytesOn(node, storageClass.parameters?.[parameters.deviceClass] ?? '');
        const { name } = storageClass.metadata;
        const found = published.get(`${node.metadata.name}/${name}`);
        const isNew = nowMs - Date.parse(storageClass.metadata.creationTimestamp) <= settledMs;
        if (free === undefined || isNew) return [];
        if (found?.capacity !== undefined && bytesOf(found.capacity) === free) return [];
        return [differing(node.metadata.name, name, free, found)];
      }),
    );
    return { summary: `${count(capacities.length, 'object')} for the scheduler agree with the nodes`, findings };
  },
});

function keyOf({ nodeTopology, storageClassName }: Stored<CsiStorageCapacity>): string {
  return `${nodeTopology?.matchLabels?.[topologyKey] ?? ''}/${storageClassName}`;
}

/** When the node last reported free space. */
function changedMs(node: Stored<Node>): number {
  const names = Object.keys(node.metadata.annotations ?? {}).filter((key) => key.startsWith(capacityAnnotationPrefix));
  const times = [...names, defaultCapacityAnnotation].map((name) =>
    storedMs(node, ['f:metadata', 'f:annotations', `f:${name}`]),
  );
  return Math.max(...times);
}

function differing(
  node: string,
  storageClass: string,
  free: bigint,
  found: Stored<CsiStorageCapacity> | undefined,
): Finding {
  const says = found ? `${found.metadata.name} says ${found.capacity ?? 'nothing'}` : 'there is no object';
  return {
    severity: 'error',
    what: `The scheduler has the wrong free space of node ${node} for StorageClass ${storageClass}.`,
    evidence: [`Node ${node} reports ${formatBytes(free)} (${free})`, `CSIStorageCapacity: ${says}`],
    fix: 'kubectl logs -A -l app.kubernetes.io/component=controller -c controller --prefix | grep -i capacit',
  };
}

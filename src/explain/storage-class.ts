import { driverName, parameters, topologyKey } from '../api/names.ts';
import { unknownParameter } from '../csi/class-parameters.ts';
import type { StorageClass } from '../kube/resource.ts';
import type { Finding } from './explanation.ts';

/** Parameters of other drivers for a zone. Moorage has no use for them: a volume is on one node. */
const zoneParameters = ['zone', 'zones'];

/**
 * What is wrong with a StorageClass of ours in any cluster: its volumes would not be what was meant, or would never exist. The
 * chart's policy says the same when such a class is created.
 */
export function classProblem(
  { metadata, provisioner, parameters: given, allowedTopologies }: StorageClass,
  correcting = replacing,
): Finding | undefined {
  if (provisioner !== driverName) return undefined;
  const name = `StorageClass ${metadata?.name}`;
  const keys = (allowedTopologies ?? []).flatMap(({ matchLabelExpressions = [] }) => matchLabelExpressions);
  const foreign = keys.find(({ key }) => key !== topologyKey);
  if (foreign) {
    return {
      code: 'TopologyUnusable',
      cause: `allowedTopologies has the key ${foreign.key}, with which no volume could ever be created`,
      advice: `list names of nodes under ${topologyKey}, or leave it out and use the nodeSelector of the pods`,
      evidence: [`${name}: allowedTopologies ${foreign.key} In (${foreign.values.join(', ')})`],
      remedy: correcting(metadata?.name, `allowedTopologies with the key ${topologyKey}`),
    };
  }
  const zone = zoneParameters.find((key) => given?.[key] !== undefined);
  if (zone) {
    return {
      code: 'ZoneParameter',
      cause: `parameters.${zone}: a local volume has a node, not a zone`,
      advice: `remove the parameter, and select the zone in the pods, with ${zoneSelection(given?.[zone] ?? '')}, because a volume is created on the node of its pod`,
      evidence: [`${name}: parameters.${zone} is ${given?.[zone]}`],
      remedy: correcting(metadata?.name, `no parameter ${zone}`),
    };
  }
  const problem = unknownParameter(given ?? {}, Object.values(parameters));
  if (problem === undefined) return undefined;
  return {
    code: 'RequestRefused',
    cause: problem,
    evidence: [`${name}: parameters ${Object.keys(given ?? {}).join(', ')}`],
    remedy: correcting(metadata?.name, 'correct parameters'),
  };
}

/** How a pod is kept in a zone, or in one of several that are separated by commas. */
function zoneSelection(value: string): string {
  const zones = value.split(',').map((zone) => zone.trim());
  const key = 'topology.kubernetes.io/zone';
  return zones.length > 1 ? `node affinity ${key} In [${zones.join(', ')}]` : `nodeSelector ${key}: ${value}`;
}

/** For a class that does not exist yet. */
export function editing(name: string | undefined, how: string): readonly string[] {
  return [`edit the file: in StorageClass ${name} write ${how}`];
}

/** The parameters of a class cannot be changed. Volumes and claims of the class keep working meanwhile. */
function replacing(name: string | undefined, how: string): readonly string[] {
  return [
    `kubectl get storageclass ${name} -o yaml > class.yaml # then write ${how}`,
    'replace the class with that in class.yaml: its volumes and claims keep working',
  ];
}

import { driverName, parameters, topologyKey } from '../api/names.ts';
import { unknownParameter } from '../csi/class-parameters.ts';
import type { StorageClass } from '../kube/resource.ts';
import type { Finding } from './explanation.ts';

/** Parameters of other drivers for a zone. Moorage has no use for them: a volume is on one node. */
const zoneParameters = ['zone', 'zones'];

/** What is wrong with a StorageClass of ours in any cluster: its volumes would not be what was meant, or would never exist. */
export function classProblem({
  metadata,
  provisioner,
  parameters: given,
  allowedTopologies,
}: StorageClass): Finding | undefined {
  if (provisioner !== driverName) return undefined;
  const name = `StorageClass ${metadata?.name}`;
  const keys = (allowedTopologies ?? []).flatMap(({ matchLabelExpressions = [] }) => matchLabelExpressions);
  const foreign = keys.find(({ key }) => key !== topologyKey);
  if (foreign) {
    return {
      code: 'TopologyUnusable',
      cause: `its allowedTopologies has the key ${foreign.key}, which volumes of Moorage cannot have`,
      advice: `use the key ${topologyKey} with names of nodes, or a nodeSelector in the pods`,
      evidence: [`${name}: allowedTopologies ${foreign.key} In (${foreign.values.join(', ')})`],
      remedy: replacing(metadata?.name, `allowedTopologies with the key ${topologyKey}`),
    };
  }
  const zone = zoneParameters.find((key) => given?.[key] !== undefined);
  if (zone) {
    return {
      code: 'ZoneParameter',
      cause: `it has the parameter ${zone}, which Moorage does not have`,
      advice: `remove it, and set nodeSelector topology.kubernetes.io/zone: ${given?.[zone]} in the pods, or allowedTopologies with the key ${topologyKey}`,
      evidence: [`${name}: parameters.${zone} is ${given?.[zone]}`],
      remedy: replacing(metadata?.name, `no parameter ${zone}`),
    };
  }
  const problem = unknownParameter(given ?? {}, Object.values(parameters));
  if (problem === undefined) return undefined;
  return {
    code: 'RequestRefused',
    cause: problem,
    evidence: [`${name}: parameters ${Object.keys(given ?? {}).join(', ')}`],
    remedy: replacing(metadata?.name, 'correct parameters'),
  };
}

/** The parameters of a class cannot be changed. Volumes and claims of the class keep working meanwhile. */
function replacing(name: string | undefined, how: string): readonly string[] {
  return [
    `kubectl get storageclass ${name} -o yaml > class.yaml # then write ${how}`,
    'kubectl replace --force -f class.yaml',
  ];
}

import type { CrdSpec, Schema } from '../../api/crd/crd.ts';
import { logicalVolumeCrd } from '../../api/crd/logical-volume.ts';
import { nodeStorageCrd } from '../../api/crd/node-storage.ts';
import { volumeMoveCrd } from '../../api/crd/volume-move.ts';
import type { Pod, Stored } from '../../kube/resource.ts';
import { isStaticOnly } from './agents.ts';
import { area, type Finding, some } from './finding.ts';
import type { CustomResourceDefinition, Observed } from './observed.ts';

export const versions = area({
  name: 'versions',
  needs: ['nodes', 'reports', 'pods'],
  ifAbsent: { reports: [] },
  judge({ nodes, reports, pods, version }) {
    const agents = agentVersions({ nodes, reports });
    const images = imagesByContainer(pods);
    const different = [...images].filter(([, byImage]) => byImage.size > 1);
    const findings: Finding[] = different.map(([container, byImage]) => ({
      severity: 'warning',
      what: `Pods run different images of ${container}: an upgrade has not ended.`,
      evidence: [...byImage].map(([image, names]) => `${image}: ${some(names)}`),
      fix: 'kubectl rollout status daemonset,deployment -A -l app.kubernetes.io/name=moorage',
    }));
    if (agents.size > 1) {
      findings.push({
        severity: 'warning',
        what: 'Agents have different versions.',
        evidence: [...agents].map(([each, names]) => `${each}: ${some(names)}`),
        fix: 'kubectl rollout status daemonset -A -l app.kubernetes.io/name=moorage',
      });
    }
    if (agents.size > 0 && !agents.has(version)) {
      findings.push({
        severity: 'warning',
        what: 'This plugin has another version than the agents, so it may not know everything that they do.',
        evidence: [`plugin ${version}, agents ${[...agents.keys()].join(', ')}`],
        fix: 'install kubectl-moorage from the image of the cluster, /usr/lib/moorage   # see docs/plugin.md',
      });
    }
    const sidecars = [...images.keys()].filter((name) => name.startsWith('csi-'));
    const tags = sidecars.map((name) => `${name} ${[...(images.get(name)?.keys() ?? [])].map(tagOf).join(', ')}`);
    const own = agents.size > 0 ? [...agents.keys()] : [...(images.get('Moorage')?.keys() ?? [])].map(tagOf);
    return { summary: [`Moorage ${own.join(', ')}`, ...tags].join('; '), findings };
  },
});

/** The nodes by the version of their agent. */
function agentVersions({ nodes, reports }: Pick<Observed, 'nodes' | 'reports'>): ReadonlyMap<string, string[]> {
  const present = new Set(nodes.map(({ metadata }) => metadata.name));
  const known = reports.flatMap(({ metadata: { name }, status }) =>
    present.has(name) && status?.versions.moorage ? [{ name, version: status.versions.moorage }] : [],
  );
  return new Map(
    [...Map.groupBy(known, ({ version }) => version)].map(([key, all]) => [key, all.map(({ name }) => name)]),
  );
}

/** `node`, `controller` and `scheduler` are containers of one image. */
function imagesByContainer(pods: readonly Stored<Pod>[]): ReadonlyMap<string, ReadonlyMap<string, string[]>> {
  const found = new Map<string, Map<string, string[]>>();
  for (const { metadata, spec } of pods) {
    for (const { name, image = '' } of spec?.containers ?? []) {
      const container = name.startsWith('csi-') ? name : 'Moorage';
      const byImage = found.get(container) ?? new Map<string, string[]>();
      byImage.set(image, [...(byImage.get(image) ?? []), metadata.name]);
      found.set(container, byImage);
    }
  }
  return found;
}

export function tagOf(image: string): string {
  return /:([^:/@]+)(@.*)?$/.exec(image)?.[1] ?? image;
}

const ours: readonly CrdSpec[] = [logicalVolumeCrd, nodeStorageCrd, volumeMoveCrd];

export const crds = area({
  name: 'CRDs',
  needs: ['crds', 'pods'],
  judge({ crds, pods, version }) {
    if (isStaticOnly(pods)) return { summary: 'static volumes need none', findings: [] };
    // Not from the reports, which need a CRD.
    const isSameVersion = pods.some(({ metadata }) => metadata.labels?.['app.kubernetes.io/version'] === version);
    const findings = ours.flatMap((spec) => {
      const name = `${spec.names.plural}.${spec.group}`;
      const crd = crds.find(({ metadata }) => metadata.name === name);
      if (!crd) {
        const what = `CRD ${name} is missing.`;
        return [{ severity: 'error', what, evidence: [`there is no CRD ${name}`], fix: applyCrds } satisfies Finding];
      }
      return [...notEstablished(crd), ...(isSameVersion ? outdated(spec, crd) : [])];
    });
    return { summary: `${ours.map(({ names }) => names.kind).join(', ')} are served`, findings };
  },
});

const applyCrds =
  'kubectl apply --server-side --force-conflicts -f deploy/crd.yaml   # or helm upgrade, which applies it';

function notEstablished({ metadata, status }: Stored<CustomResourceDefinition>): Finding[] {
  const wrong = (status?.conditions ?? []).filter(
    ({ type, status }) => ['Established', 'NamesAccepted'].includes(type) && status !== 'True',
  );
  if (wrong.length === 0) return [];
  const evidence = wrong.map(({ type, message }) => `condition ${type}: ${message}`);
  const what = `CRD ${metadata.name} is not served.`;
  return [{ severity: 'error', what, evidence, fix: `kubectl describe crd ${metadata.name}` }];
}

/** The API server adds defaults to what was applied, so only fields that are missing there count. */
function outdated(spec: CrdSpec, { metadata, spec: served }: Stored<CustomResourceDefinition>): Finding[] {
  const [version] = spec.versions;
  const there = served.versions.find(({ name }) => name === version.name);
  const missing = missingFields(version.schema.openAPIV3Schema, there?.schema?.openAPIV3Schema as Schema | undefined);
  if (missing.length === 0) return [];
  return [
    {
      severity: 'warning',
      what: `CRD ${metadata.name} is older than the agents, so the API server drops some of what they write.`,
      evidence: [`fields that it does not have: ${some(missing)}`],
      fix: applyCrds,
    },
  ];
}

function missingFields(wanted: Schema, there: Schema | undefined, path = ''): string[] {
  const inItems = wanted.items ? missingFields(wanted.items, there?.items, `${path}[]`) : [];
  const inFields = Object.entries(wanted.properties ?? {}).flatMap(([name, schema]) => {
    const field = there?.properties?.[name];
    return field ? missingFields(schema, field, `${path}.${name}`) : [`${path}.${name}`];
  });
  return [...inItems, ...inFields];
}

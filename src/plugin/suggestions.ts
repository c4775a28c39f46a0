import { driverName } from '../api/names.ts';
import type { Suggest } from '../base/flags.ts';
import type { KubeClient } from '../kube/client.ts';
import {
  type KubeObject,
  nodes,
  type PersistentVolume,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type Resource,
  type Stored,
} from '../kube/resource.ts';
import { contextNames, type Target, withSession } from './connect.ts';

/** Longer, and a person has typed the name. */
const patienceMs = 3_000;

const namespaces: Resource<KubeObject> = {
  group: '',
  version: 'v1',
  plural: 'namespaces',
  kind: 'Namespace',
  namespaced: false,
};

export const suggestContexts: Suggest = (typed, env) => contextNames(targetOf(typed), env);
export const suggestNamespaces: Suggest = named((client, signal) => names(client, namespaces, undefined, signal));
export const suggestNodes: Suggest = named((client, signal) => names(client, nodes, undefined, signal));
export const suggestClaims: Suggest = named((client, signal, namespace) =>
  names(client, persistentVolumeClaims, namespace, signal),
);

/** Claims, and pods that are not running yet. */
export const suggestWaiting: Suggest = named(async (client, signal, namespace) => {
  const claims = await names(client, persistentVolumeClaims, namespace, signal);
  const { items } = await client.list(pods, {
    namespace,
    fieldSelector: 'status.phase=Pending',
    project: ({ metadata }) => metadata.name,
    signal,
  });
  return [...claims.map((name) => `pvc/${name}`), ...items.map((name) => `pod/${name}`)];
});

/** As the commands take them. Only volumes of ours. */
export const suggestPersistentVolumes: Suggest = named(async (client, signal) => {
  const project = ({ metadata, spec }: Stored<PersistentVolume>) =>
    spec?.csi?.driver === driverName ? [`pv/${metadata.name}`] : [];
  return (await client.list(persistentVolumes, { project, signal })).items.flat();
});

type Look = (client: KubeClient, signal: AbortSignal, namespace: string) => Promise<readonly string[]>;

/** Looks in the cluster and namespace of the flags that are already typed. */
function named(look: Look): Suggest {
  return (typed, env) =>
    withSession(targetOf(typed), env, ({ client, namespace }) =>
      look(client, AbortSignal.timeout(patienceMs), typed.get('namespace') || namespace),
    );
}

function targetOf(typed: ReadonlyMap<string, string>): Target {
  return { kubeconfig: typed.get('kubeconfig') ?? '', context: typed.get('context') ?? '' };
}

async function names(
  client: KubeClient,
  resource: Resource<KubeObject>,
  namespace: string | undefined,
  signal: AbortSignal,
): Promise<readonly string[]> {
  return (await client.list(resource, { namespace, project: ({ metadata }) => metadata.name, signal })).items;
}

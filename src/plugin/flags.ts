import { type Flags, flag, oneOf, path, text } from '../base/flags.ts';
import { suggestContexts, suggestNamespaces } from './suggestions.ts';

/** Which cluster, and how to print. */
export const clusterFlags = {
  context: flag({
    name: 'context',
    type: text,
    default: '',
    description: 'Context of the kubeconfig; empty for its current one',
    suggest: suggestContexts,
  }),
  kubeconfig: flag({
    name: 'kubeconfig',
    type: path,
    default: '',
    env: 'KUBECONFIG',
    description: 'Kubeconfig file; empty for ~/.kube/config',
  }),
  output: flag({
    name: 'output',
    short: 'o',
    type: oneOf(['table', 'wide', 'json', 'yaml']),
    default: 'table',
    description: 'Output format: table or wide for people, json or yaml for programs',
  }),
} as const satisfies Flags;

export const namespaceFlag = {
  namespace: flag({
    name: 'namespace',
    short: 'n',
    type: text,
    default: '',
    description: 'Namespace of the claim; empty for that of the context',
    suggest: suggestNamespaces,
  }),
} as const satisfies Flags;

import type { V1Namespace } from '@kubernetes/client-node';
import type { Resource, Wire } from '../resource.ts';

export type Namespace = Wire<V1Namespace>;

export const namespaces: Resource<Namespace> = {
  group: '',
  version: 'v1',
  plural: 'namespaces',
  kind: 'Namespace',
  namespaced: false,
};

import type { V1ConfigMap, V1Namespace } from '@kubernetes/client-node';
import type { Resource, Wire } from '../resource.ts';

export type ConfigMap = Wire<V1ConfigMap>;
export type Namespace = Wire<V1Namespace>;

export const configMaps: Resource<ConfigMap> = {
  group: '',
  version: 'v1',
  plural: 'configmaps',
  kind: 'ConfigMap',
  namespaced: true,
};
export const namespaces: Resource<Namespace> = {
  group: '',
  version: 'v1',
  plural: 'namespaces',
  kind: 'Namespace',
  namespaced: false,
};

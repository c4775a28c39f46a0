import type { KubeObject, ObjectMeta } from '../object.ts';

/** The spec of a CustomResourceDefinition with one version, as far as ours need it. */
export interface CrdSpec {
  readonly group: string;
  readonly scope: 'Cluster' | 'Namespaced';
  readonly names: {
    readonly kind: string;
    readonly listKind: string;
    readonly plural: string;
    readonly singular: string;
  };
  readonly versions: readonly [Version];
}

interface Version {
  readonly name: string;
  readonly served: true;
  readonly storage: true;
  readonly subresources?: { readonly status: object };
  readonly selectableFields?: readonly { readonly jsonPath: string }[];
  readonly additionalPrinterColumns: readonly {
    readonly name: string;
    readonly type: 'string' | 'integer' | 'date';
    readonly jsonPath: string;
    /** 1: shown only with `-o wide`. */
    readonly priority?: 1;
  }[];
  readonly schema: { readonly openAPIV3Schema: Schema };
}

/** The part of OpenAPI that our schemas use. */
export interface Schema {
  readonly description?: string;
  readonly type?: 'object' | 'array' | 'string' | 'integer' | 'boolean';
  readonly format?: 'int32' | 'int64' | 'date-time';
  readonly enum?: readonly string[];
  readonly pattern?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly maxItems?: number;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly 'x-kubernetes-int-or-string'?: true;
  readonly 'x-kubernetes-map-type'?: 'atomic';
  readonly 'x-kubernetes-validations'?: readonly Rule[];
}

export interface Rule {
  readonly rule: string;
  readonly message: string;
  readonly fieldPath?: string;
}

/** The object that the CRD describes. */
export type ObjectOf<Crd extends CrdSpec> = KubeObject &
  Omit<ValueOf<Crd['versions'][0]['schema']['openAPIV3Schema']>, 'apiVersion' | 'kind' | 'metadata'> & {
    readonly metadata?: ObjectMeta;
  };

/** The values that a schema accepts. */
export type ValueOf<S> = S extends { readonly 'x-kubernetes-int-or-string': true }
  ? string | number
  : S extends { readonly enum: readonly (infer Choice)[] }
    ? Choice
    : S extends { readonly items: infer Item }
      ? readonly ValueOf<Item>[]
      : S extends { readonly properties: infer Properties; readonly required: readonly (infer Required)[] }
        ? Fields<Properties, Required>
        : S extends { readonly properties: infer Properties }
          ? Fields<Properties, never>
          : S extends { readonly type: infer Type extends keyof Scalars }
            ? Scalars[Type]
            : never;

type Fields<Properties, Required> = {
  readonly [Name in keyof Properties as Name extends Required ? Name : never]: ValueOf<Properties[Name]>;
} & { readonly [Name in keyof Properties as Name extends Required ? never : Name]?: ValueOf<Properties[Name]> };

interface Scalars {
  readonly string: string;
  readonly integer: number;
  readonly boolean: boolean;
  readonly object: object;
}

/** A Kubernetes quantity, such as `1Gi`; a person may write a plain number. */
export const quantity = {
  'x-kubernetes-int-or-string': true,
  maxLength: 64,
  pattern:
    '^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$',
} as const satisfies Schema;

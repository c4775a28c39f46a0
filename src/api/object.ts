import type { V1ObjectMeta } from '@kubernetes/client-node';

declare const objectType: unique symbol;

/** Where the API server serves one kind of object; `T` is the shape of such an object as we write it. */
export interface Resource<T extends KubeObject> {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
  /** Never set at run time: it only binds `T` to the resource. */
  readonly [objectType]?: T;
}

export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata?: ObjectMeta;
}

export type ObjectMeta = Wire<V1ObjectMeta>;

/** An object as the API server returned it, with the fields that the server always sets. */
export type Stored<T extends KubeObject> = T & { readonly metadata: StoredMeta };

export type StoredMeta = ObjectMeta & {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly creationTimestamp: string;
};

/** The generated types have `Date`s, which their own client parses; on the wire, and here, times are strings. */
export type Wire<T> = T extends Date
  ? string
  : T extends readonly (infer Item)[]
    ? Wire<Item>[]
    : T extends object
      ? { [Key in keyof T]: Wire<T[Key]> }
      : T;

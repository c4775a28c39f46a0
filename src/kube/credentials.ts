import type { Clock } from '../base/clock.ts';
import type { Connection } from './connection.ts';

export interface InCluster {
  /** KUBERNETES_SERVICE_HOST */
  readonly host: string;
  /** KUBERNETES_SERVICE_PORT */
  readonly port: string;
  /** Where the kubelet put `token` and `ca.crt`. */
  readonly serviceAccountDir?: string;
}

export declare function connectionInCluster(place: InCluster, clock: Clock): Promise<Connection>;
export declare function connectionFromKubeconfig(path: string, clock: Clock): Promise<Connection>;

import type { LogicalVolume } from '../../api/logical-volume.ts';
import { volumeMoves } from '../../api/volume-move.ts';
import type { Clock } from '../../base/clock.ts';
import type { Listeners } from '../../base/listeners.ts';
import type { Log } from '../../base/log.ts';
import type { Work } from '../../base/work.ts';
import type { VolumeId } from '../../engine/pool.ts';
import type { Pools } from '../../engine/pools.ts';
import { parseAddress } from '../../http/address.ts';
import type { KubeClient } from '../../kube/client.ts';
import { Informer } from '../../kube/informer.ts';
import type { PublishedVolumes } from '../../volumes/published-volumes.ts';
import { AgentCopying } from './agent-copying.ts';
import { movesFrom } from './source-side.ts';
import { movesTo } from './target-side.ts';

interface Options {
  readonly nodeName: string;
  /** Where volumes that move to other nodes are served. */
  readonly moveAddress: string;
  /** At which other agents reach that address. */
  readonly moveHost: string;
}

interface Collaborators {
  readonly client: KubeClient;
  /** The LogicalVolumes of this node. */
  readonly volumes: Informer<LogicalVolume>;
  readonly clock: Clock;
  readonly log: Log;
}

interface Volumes {
  readonly pools: Pick<Pools, 'all' | 'unavailable'>;
  readonly published: Pick<PublishedVolumes, 'close'>;
  readonly givenBack: Listeners<VolumeId>;
}

/** The agent's part in the moves from and to its node. */
export function movesOfNode({ nodeName, moveAddress, moveHost: host }: Options, collaborators: Collaborators) {
  const { client, volumes, clock, log } = collaborators;
  // An API server cannot select both at once.
  const watch = (field: string) =>
    new Informer({ client, resource: volumeMoves, fieldSelector: `${field}=${nodeName}`, clock, log });
  const [from, to] = [watch('status.sourceNode'), watch('status.targetNode')];

  const begin = ({ pools, published, givenBack }: Volumes) => {
    const { port } = parseAddress(moveAddress);
    const close = (id: VolumeId, signal: AbortSignal) => published.close(id, signal);
    const copying = new AgentCopying({ pools, close, host, port, clock, log });
    const common = { client, volumes, movable: copying, copying, clock, log };
    const work: readonly Work[] = [movesFrom({ ...common, moves: from, givenBack }), movesTo({ ...common, moves: to })];
    return { work, end: () => copying.stop() };
  };
  return { watches: { 'volumemoves-from': from, 'volumemoves-to': to }, begin };
}

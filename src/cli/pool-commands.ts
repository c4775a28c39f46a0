import { type Command, command } from '../base/command.ts';
import { formatBytes } from '../base/quantity.ts';
import type { Pool } from '../rpc/gen/moorage/v1/engine_pb.ts';
import { EngineClient, engineFlags } from './engine-client.ts';
import { table } from './table.ts';

const timeoutMs = 30_000;

export const poolCommand: Command = {
  summary: 'list the pools of this node, one per device class',
  commands: {
    ls: command({
      summary: 'list pools with their size, free space and usage',
      flags: engineFlags,
      async run(flags, { print, signal }) {
        using engine = await EngineClient.connect(flags.socket);
        const { pools } = await engine.engine.listPools({}, { timeoutMs, signal });
        print(flags.output === 'json' ? JSON.stringify(pools.map(showPool), undefined, 2) : poolTable(pools));
      },
    }),
  },
};

/** A pool as `-o json` shows it. Programs depend on these names. */
function showPool(pool: Pool) {
  const { deviceClass, isDefault, volumes, thin, unavailable } = pool;
  return {
    deviceClass,
    isDefault,
    sizeBytes: Number(pool.sizeBytes),
    freeBytes: Number(pool.freeBytes),
    volumes,
    ...(thin && { dataPercent: thin.dataPercent, metadataPercent: thin.metadataPercent }),
    erasures: pool.erasures.map(({ name, doneBytes, totalBytes }) => ({
      name,
      doneBytes: Number(doneBytes),
      totalBytes: Number(totalBytes),
    })),
    ...(unavailable && { unavailable }),
  };
}

function poolTable(pools: readonly Pool[]): string {
  const rows = pools.map(({ deviceClass, isDefault, sizeBytes, freeBytes, volumes, thin, erasures, unavailable }) => [
    deviceClass,
    isDefault ? 'yes' : '',
    ...(unavailable ? ['-', '-', '-'] : [formatBytes(sizeBytes), formatBytes(freeBytes), String(volumes)]),
    thin ? `${thin.dataPercent}%` : '',
    thin ? `${thin.metadataPercent}%` : '',
    erasures.map(({ name }) => name).join(', '),
  ]);
  const header = ['CLASS', 'DEFAULT', 'SIZE', 'FREE', 'VOLUMES', 'DATA', 'METADATA', 'ERASING'];
  const waiting = pools.filter(({ unavailable }) => unavailable !== '');
  return [
    table(header, rows),
    ...waiting.map(({ deviceClass, unavailable }) => `\n${deviceClass} cannot be served now: ${unavailable}`),
  ].join('\n');
}

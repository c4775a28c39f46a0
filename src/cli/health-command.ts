import { readFile } from 'node:fs/promises';
import { command } from '../base/command.ts';
import { MoorageError } from '../base/errors.ts';
import { type Flags, flag, path } from '../base/flags.ts';
import { EngineClient } from './engine-client.ts';

/** The engine gives up on LVM after 10 s, and then reports that. */
const timeoutMs = 15_000;

export const configFlag = flag({
  name: 'config',
  type: path,
  default: '/etc/topolvm/lvmd.yaml',
  description: 'File with the device classes of this node',
});

const flags = { config: configFlag } as const satisfies Flags;

export const healthCommand = command({
  summary: 'check that a running lvmd, and LVM below it, still answer',
  flags,
  async run({ config }, { print, signal }) {
    const { parseStorageConfig } = await import('../engine/config/device-classes-yaml.ts');
    const { socketPath } = parseStorageConfig(await readFile(config, 'utf8'));
    using engine = await EngineClient.connect(socketPath);
    const { HealthCheckResponse_ServingStatus: Status } = await import('../rpc/gen/grpc/health/v1/health_pb.ts');
    const { status, reason } = await engine.health.check({}, { timeoutMs, signal });
    if (status !== Status.SERVING) throw new Unhealthy(reason);
    print(reason ? `healthy; ${reason}` : 'healthy');
  },
});

export class Unhealthy extends MoorageError {
  readonly code = 'Unavailable';

  constructor(reason: string) {
    super(`lvmd runs, but cannot serve: ${reason || 'it gives no reason; see its log'}`);
  }
}

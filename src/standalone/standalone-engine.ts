import { mkdir, readFile } from 'node:fs/promises';
import { parseStorageConfig } from '../engine/config/device-classes-yaml.ts';
import { StorageEngine, type StorageEngineCollaborators, type StorageEngineOptions } from '../engine/storage-engine.ts';
import { mustBeOnlyLvmd, serveLvmd } from '../lvmd/lvmd-server.ts';
import type { RpcServer } from '../rpc/server.ts';

/** The directory of volumes as files, without a configuration. */
export const defaultDirectory = '/var/lib/moorage';

const defaultConfig = `
device-classes:
  - name: files
    type: file
    path: ${defaultDirectory}
    default: true
    spare-gb: 1
`;

export interface StandaloneEngine {
  readonly engine: StorageEngine;
  /** Serves `moorage volume` and `moorage pool`, and prevents a second engine on the same disks. */
  readonly server: RpcServer;
}

/** The storage engine with this configuration file, or with files in the default directory if none is named. */
export async function startEngine(
  { configFile, stateDirectory }: Pick<StorageEngineOptions, 'configFile' | 'stateDirectory'>,
  collaborators: Omit<StorageEngineCollaborators, 'stateDirectory'>,
  signal: AbortSignal,
): Promise<StandaloneEngine> {
  const options = { ...collaborators, stateDirectory };
  const config = parseStorageConfig(configFile ? await readFile(configFile, 'utf8') : defaultConfig);
  const { socketPath } = config;
  await mustBeOnlyLvmd(socketPath);
  if (!configFile) await mkdir(defaultDirectory, { recursive: true, mode: 0o700 });
  const engine = await (configFile
    ? StorageEngine.start({ ...options, configFile }, signal)
    : StorageEngine.startWith(config, options, signal));
  try {
    return { engine, server: await serveLvmd({ ...options, socketPath, pools: engine.pools }) };
  } catch (error) {
    await engine.stop();
    throw error;
  }
}

import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import type { Log } from '../base/log.ts';
import { createServer } from '../base/node-http.ts';
import { JsonServer } from '../http/json-server.ts';
import { extender } from './extender.ts';
import { parseSchedulerConfig } from './scheduler-config.ts';

/** The scheduler extender. Stateless: each request contains its nodes. Runs until the signal aborts. */
export async function runScheduler(
  /** Empty for the defaults. */
  { configFile }: { readonly configFile: string },
  { log }: { readonly log: Log },
  signal: AbortSignal,
): Promise<void> {
  const config = parseSchedulerConfig(configFile && (await readFile(configFile, 'utf8')));
  const answers = extender(config.divisors);
  const server = new JsonServer({ server: createServer(), address: config.listen, answers, log });
  const { address, port } = await server.listen();
  log.info({ address, port }, 'serving');
  if (!signal.aborted) await once(signal, 'abort');
  await server.stop();
}

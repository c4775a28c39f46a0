import type { KubeClient } from '../../kube/client.ts';
import { agents, registration, reports } from './agents.ts';
import { capacity } from './capacity.ts';
import { clock } from './clock.ts';
import { controller, webhook } from './controller.ts';
import { type About, type Area, reportOf } from './finding.ts';
import { nodeRemoval, topolvm } from './leftovers.ts';
import { type Readings, readInstallation } from './observed.ts';
import type { Diagnosis } from './screen.ts';
import { classes, features, orphans, pools, swap } from './storage.ts';
import { crds, versions } from './versions.ts';

const areas: readonly Area[] = [
  agents,
  registration,
  reports,
  controller,
  webhook,
  crds,
  versions,
  clock,
  features,
  pools,
  capacity,
  classes,
  swap,
  orphans,
  nodeRemoval,
  topolvm,
];

/** Reads the installation and judges it. */
export async function diagnose(client: KubeClient, version: string, signal: AbortSignal): Promise<Diagnosis> {
  const { readings, nowMs } = await readInstallation(client, signal);
  return diagnosisOf(readings, { version, nowMs });
}

export function diagnosisOf(readings: Readings, about: About): Diagnosis {
  const reported = areas.map((each) => reportOf(each, readings, about));
  return { healthy: reported.every(({ result }) => result === 'ok'), areas: reported };
}

import type { KubeClient } from '../../kube/client.ts';
import { agents, isStaticOnly, registration, reports } from './agents.ts';
import { capacity } from './capacity.ts';
import { clock } from './clock.ts';
import { controller, webhook } from './controller.ts';
import { type About, type Area, type AreaReport, reportOf } from './finding.ts';
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
  const known = needsCsi(readings) ? withoutAbsence(readings) : readings;
  const reported = areas.map((each) => reportOf(each, known, about));
  const isWell = ({ result }: AreaReport) => result === 'ok' || result === 'notApplicable';
  return { healthy: reported.every(isWell), areas: reported };
}

/** Agents for static volumes alone need no kind of ours. */
function needsCsi({ pods }: Readings): boolean {
  return pods.kind !== 'read' || !isStaticOnly(pods.value);
}

/** Of an installation that needs them, kinds that the cluster does not have are unknown. */
function withoutAbsence(readings: Readings): Readings {
  const entries = Object.entries(readings).map(([key, reading]) => [
    key,
    reading.kind === 'absent' ? { ...reading, kind: 'unknown' } : reading,
  ]);
  return Object.fromEntries(entries) as Readings;
}

import { X509Certificate } from 'node:crypto';
import { driverName, webhookConfigurationName } from '../../api/names.ts';
import type { Lease, Pod, Stored } from '../../kube/resource.ts';
import { bundleOf, certificatesIn } from '../../webhook/trust.ts';
import { count } from '../terminal.ts';
import { componentOf, isReady, messagesAbout, placeOf, stateOf } from './agents.ts';
import { renewalStoredMs } from './clock.ts';
import { area, type Finding } from './finding.ts';
import type { EndpointSlice, WebhookConfiguration } from './observed.ts';

function controllersOf(pods: readonly Stored<Pod>[]): readonly Stored<Pod>[] {
  return pods.filter((pod) => componentOf(pod) === 'controller' && !pod.metadata.deletionTimestamp);
}

/** The lease by which each container elects a leader. */
const leaseOf: ReadonlyMap<string, string> = new Map([
  ['controller', 'topolvm'],
  ['csi-provisioner', driverName.replaceAll('.', '-')],
  ['csi-resizer', `external-resizer-${driverName.replaceAll('.', '-')}`],
  ['csi-snapshotter', `external-snapshotter-leader-${driverName.replaceAll('.', '-')}`],
]);

export const controller = area({
  name: 'controller',
  needs: ['pods', 'leases', 'warnings'],
  judge({ pods, leases, warnings, nowMs }) {
    const controllers = controllersOf(pods);
    const ready = controllers.filter(isReady);
    const severity = ready.length === 0 ? 'error' : 'warning';
    const unready = controllers
      .filter((pod) => !isReady(pod))
      .map((pod): Finding => {
        const { name } = pod.metadata;
        const what = `Controller ${name} is not ready${ready.length === 0 ? ', so no volume is created' : '; others are'}.`;
        const fix = `kubectl describe pod ${placeOf(pod)}\nkubectl logs ${placeOf(pod)} --all-containers`;
        return { severity, what, evidence: [...stateOf(pod), ...messagesAbout(name, warnings)], fix };
      });
    const containers = new Set(ready.flatMap(({ spec }) => spec?.containers.map(({ name }) => name) ?? []));
    const leaderless = [...leaseOf]
      .filter(([container]) => containers.has(container))
      .flatMap(([container, name]) => leaseFindings(container, name, leases, nowMs));
    const findings = controllers.length === 0 ? [noController] : [...unready, ...leaderless];
    return { summary: `${count(ready.length, 'replica')} ready, with a leader`, findings };
  },
});

const noController: Finding = {
  severity: 'error',
  what: 'There is no controller, so no volume is created or removed.',
  evidence: ['no pod has the labels app.kubernetes.io/name=moorage and app.kubernetes.io/component=controller'],
  fix: 'kubectl get deployments,replicasets -A -l app.kubernetes.io/name=moorage   # and their events',
};

function leaseFindings(container: string, name: string, leases: readonly Stored<Lease>[], nowMs: number): Finding[] {
  const lease = leases.find(({ metadata }) => metadata.name === name);
  const { holderIdentity = '', leaseDurationSeconds = 15 } = lease?.spec ?? {};
  const ageMs = lease ? nowMs - renewalStoredMs(lease) : Number.POSITIVE_INFINITY;
  if (holderIdentity && ageMs <= 2 * leaseDurationSeconds * 1000) return [];
  const age = lease
    ? `renewed ${Math.round(ageMs / 1000)} s ago by ${holderIdentity || 'nobody'}`
    : 'it does not exist';
  return [
    {
      severity: 'error',
      what: `No replica of ${container} leads, so its work is not done.`,
      evidence: [`Lease ${name}: ${age}`],
      fix: `kubectl logs -A -l app.kubernetes.io/component=controller -c ${container} --prefix`,
    },
  ];
}

const dayMs = 24 * 60 * 60_000;
/** Those that the controller creates are valid for 7 days and renewed after 3; others are renewed weeks before. */
const daysLeft = { own: 2, others: 7 };

export const webhook = area({
  name: 'webhook',
  needs: ['pods', 'webhooks', 'endpointSlices'],
  judge({ pods, webhooks, endpointSlices, nowMs }) {
    const ours = webhooks.filter(({ metadata }) => metadata.name === webhookConfigurationName);
    const facts = { controllers: controllersOf(pods).filter(isReady), endpointSlices, nowMs };
    const judged = ours.flatMap((each) => each.webhooks ?? []).map((each) => webhookFindings(each, facts));
    const days = Math.min(...judged.map(({ days }) => days));
    const summary = judged.length === 0 ? 'none is installed' : `certificates are valid for ${days} days more`;
    return { summary, findings: judged.flatMap(({ findings }) => findings) };
  },
});

interface WebhookFacts {
  readonly controllers: readonly Stored<Pod>[];
  readonly endpointSlices: readonly Stored<EndpointSlice>[];
  readonly nowMs: number;
}

type Webhook = NonNullable<WebhookConfiguration['webhooks']>[number];

export function hasReadyEndpoint(serviceName: string, endpointSlices: readonly Stored<EndpointSlice>[]): boolean {
  return endpointSlices
    .filter(({ metadata }) => metadata.labels?.['kubernetes.io/service-name'] === serviceName)
    .some(({ endpoints }) => endpoints?.some(({ conditions }) => conditions?.ready));
}

function webhookFindings(
  { name, clientConfig, failurePolicy }: Webhook,
  { controllers, endpointSlices, nowMs }: WebhookFacts,
): { readonly days: number; readonly findings: readonly Finding[] } {
  const effect = failurePolicy === 'Ignore' ? 'is skipped' : 'refuses the objects that it should check';
  const configuration = `webhook configuration ${webhookConfigurationName}`;
  const serviceName = clientConfig.service?.name ?? '';
  const certificates = certificatesIn(bundleOf(clientConfig)).map((pem) => new X509Certificate(pem));
  const valid = certificates.filter(({ validTo }) => Date.parse(validTo) > nowMs);
  const lastMs = Math.max(...valid.map(({ validTo }) => Date.parse(validTo)));
  const days = Math.floor((lastMs - nowMs) / dayMs);
  const isOwn = controllers.some(({ spec }) =>
    spec?.containers.some(({ args = [] }) => args.some((arg) => arg.startsWith('--webhook-service='))),
  );
  const restart = 'kubectl rollout restart deployment -n moorage-system moorage-controller';
  const renew = isOwn ? restart : 'kubectl get certificates,secrets -n moorage-system   # of webhook.secretName';
  const findings: Finding[] = [];
  if (!hasReadyEndpoint(serviceName, endpointSlices)) {
    findings.push({
      severity: 'error',
      what: `The API server cannot call webhook ${name}, and ${effect}: its Service has no ready endpoint.`,
      evidence: [`EndpointSlices of Service ${serviceName}: none is ready`],
      fix: 'kubectl get pods -A -l app.kubernetes.io/component=controller',
    });
  }
  if (valid.length === 0) {
    const newest = certificates.map(({ validTo }) => validTo).at(-1);
    findings.push({
      severity: 'error',
      what: `The API server trusts no certificate of webhook ${name}, and ${effect}.`,
      evidence: [`caBundle of ${configuration}: ${newest ? `expired on ${newest}` : 'empty'}`],
      fix: renew,
    });
    return { days: 0, findings };
  }
  if (days < (isOwn ? daysLeft.own : daysLeft.others)) {
    findings.push({
      severity: 'warning',
      what: `The certificate of webhook ${name} expires in ${count(days, 'day')}, and was not renewed.`,
      evidence: [`caBundle of ${configuration}: valid to ${new Date(lastMs).toISOString()}`],
      fix: renew,
    });
  }
  const trusted = new Set(valid.map(({ subject }) => subject));
  const untrusted = isOwn ? controllers.filter(({ metadata }) => !trusted.has(`CN=${metadata.name}`)) : [];
  for (const { metadata } of untrusted) {
    findings.push({
      severity: 'error',
      what: `The API server does not trust controller ${metadata.name}, so calls of webhook ${name} fail when they reach it.`,
      evidence: [`caBundle of ${configuration} has no certificate CN=${metadata.name}`],
      fix: `kubectl delete pod -n ${metadata.namespace} ${metadata.name}`,
    });
  }
  return { days, findings };
}

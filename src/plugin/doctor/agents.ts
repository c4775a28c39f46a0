import { driverName, topologyKey } from '../../api/names.ts';
import type { CsiNode, Event, Node, Pod, Stored } from '../../kube/resource.ts';
import { count } from '../terminal.ts';
import { area, type Finding, some } from './finding.ts';
import type { DaemonSet } from './observed.ts';

/** How long an agent is ready before its report and its registration count as missing. */
const settledMs = 30_000;

export function componentOf({ metadata }: Stored<Pod>): string | undefined {
  return metadata.labels?.['app.kubernetes.io/component'];
}

export function isReady({ metadata, status }: Stored<Pod>): boolean {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  return ready?.status === 'True' && !metadata.deletionTimestamp;
}

/** The agents of each node, without those that are told to stop. */
export function agentsByNode(pods: readonly Stored<Pod>[]): ReadonlyMap<string, readonly Stored<Pod>[]> {
  const agents = pods.filter((pod) => componentOf(pod) === 'node' && !pod.metadata.deletionTimestamp);
  return Map.groupBy(agents, ({ spec }) => spec?.nodeName ?? '');
}

export function placeOf({ metadata }: Stored<Pod>): string {
  return `-n ${metadata.namespace} ${metadata.name}`;
}

function argumentOf(pod: Stored<Pod>, flag: string): string | undefined {
  const words = pod.spec?.containers.flatMap(({ args = [] }) => args) ?? [];
  return words.find((word) => word.startsWith(`${flag}=`))?.slice(flag.length + 1);
}

/** Ready, and long enough for everything that follows. */
function isSettled(pod: Stored<Pod>, nowMs: number): boolean {
  const ready = pod.status?.conditions?.find(({ type }) => type === 'Ready');
  const readyMs = Date.parse(ready?.lastTransitionTime ?? '');
  // The kubelet writes it: a clock that is ahead would make the agent new for a long time.
  const sinceMs = readyMs <= nowMs ? readyMs : Date.parse(pod.metadata.creationTimestamp);
  return isReady(pod) && nowMs - sinceMs > settledMs;
}

function servesCsi(agent: Stored<Pod>): boolean {
  return argumentOf(agent, '--csi') !== 'false';
}

/** Whether Moorage serves static volumes only, and so needs neither CRDs nor a driver. */
export function isStaticOnly(pods: readonly Stored<Pod>[]): boolean {
  const agents = [...agentsByNode(pods).values()].flat();
  return agents.length > 0 && !agents.some(servesCsi);
}

/** Agents that serve CSI, and have had the time to start. */
export function servingAgents(pods: readonly Stored<Pod>[], nowMs: number): ReadonlyMap<string, Stored<Pod>> {
  const serving = [...agentsByNode(pods)].flatMap(([node, agents]) => {
    const ready = agents.find((pod) => isSettled(pod, nowMs) && servesCsi(pod));
    return ready ? [[node, ready] as const] : [];
  });
  return new Map(serving);
}

export const agents = area({
  name: 'agents',
  needs: ['nodes', 'pods', 'daemonSets', 'warnings', 'csiNodes'],
  judge({ nodes, pods, daemonSets, warnings, csiNodes }) {
    const agents = agentsByNode(pods);
    const ofAgents = daemonSets.filter(({ metadata }) => metadata.labels?.['app.kubernetes.io/component'] === 'node');
    const running = nodes.filter(({ metadata }) => agents.get(metadata.name)?.some(isReady));
    const findings = [
      ...(ofAgents.length === 0 ? [noAgents] : ofAgents.flatMap((each) => daemonSetFindings(each, warnings))),
      ...(agents.get('') ?? []).map((pod) => unscheduled(pod)),
      ...nodes.flatMap((node) => nodeFindings(node, agents.get(node.metadata.name) ?? [], warnings, csiNodes)),
    ];
    return { summary: `${count(running.length, 'agent')} ready, on ${count(nodes.length, 'node')}`, findings };
  },
});

const noAgents: Finding = {
  severity: 'error',
  what: 'Moorage is not installed: there is no DaemonSet of its agents.',
  evidence: ['no DaemonSet has the labels app.kubernetes.io/name=moorage and app.kubernetes.io/component=node'],
  fix: 'helm install moorage deploy/helm/moorage -n moorage-system   # see docs/install.md',
};

function daemonSetFindings({ metadata, status }: Stored<DaemonSet>, warnings: readonly Stored<Event>[]): Finding[] {
  const { desiredNumberScheduled: wanted = 0, currentNumberScheduled: current = 0 } = status ?? {};
  const fix = `kubectl describe daemonset -n ${metadata.namespace} ${metadata.name}`;
  const evidence = [`status: desiredNumberScheduled ${wanted}, currentNumberScheduled ${current}`];
  if (wanted === 0) {
    const what = `DaemonSet ${metadata.name} selects no node, so no node has volumes.`;
    return [
      { severity: 'warning', what, evidence, fix: `${fix}   # compare its node selector with kubectl get nodes` },
    ];
  }
  if (current >= wanted) return [];
  const what = `DaemonSet ${metadata.name} should run on ${count(wanted, 'node')}, and has ${count(current, 'pod')}.`;
  return [{ severity: 'error', what, evidence: [...evidence, ...messagesAbout(metadata.name, warnings)], fix }];
}

function unscheduled(pod: Stored<Pod>): Finding {
  const scheduled = pod.status?.conditions?.find(({ type }) => type === 'PodScheduled');
  return {
    severity: 'error',
    what: `Agent ${pod.metadata.name} is not scheduled.`,
    evidence: [scheduled?.message ?? 'its pod has no node'],
    fix: `kubectl describe pod ${placeOf(pod)}`,
  };
}

function nodeFindings(
  { metadata: { name } }: Stored<Node>,
  agents: readonly Stored<Pod>[],
  warnings: readonly Stored<Event>[],
  csiNodes: readonly Stored<CsiNode>[],
): Finding[] {
  if (agents.some(isReady)) return [];
  const [agent] = agents;
  if (agent) return [notReady(name, agent, warnings)];
  const csiNode = csiNodes.find(({ metadata }) => metadata.name === name);
  if (!csiNode?.spec.drivers.some((driver) => driver.name === driverName)) return []; // it never had one
  return [
    {
      severity: 'error',
      what: `Node ${name} had an agent, and has none now: its volumes can be neither mounted nor created.`,
      evidence: [`CSINode ${name} has driver ${driverName}`, 'no pod of an agent is on the node'],
      fix: `kubectl describe daemonset -A -l app.kubernetes.io/name=moorage   # its node selector and tolerations, against kubectl describe node ${name}`,
    },
  ];
}

function notReady(node: string, pod: Stored<Pod>, warnings: readonly Stored<Event>[]): Finding {
  const events = messagesAbout(pod.metadata.name, warnings);
  const evidence = [...stateOf(pod), ...events];
  const wrongPath = events.map((message) => /hostPath type check failed: (\S+)/.exec(message)?.[1]).find(Boolean);
  if (wrongPath) {
    return {
      severity: 'error',
      what: `The agent on node ${node} cannot start: the node has no ${wrongPath}, so the kubelet's directory is another one.`,
      evidence,
      fix: `ps -o args= -C kubelet   # on the node: --root-dir\nhelm upgrade moorage deploy/helm/moorage -n ${pod.metadata.namespace} --reuse-values --set node.kubeletWorkDirectory=DIRECTORY`,
    };
  }
  const path = `/api/v1/namespaces/${pod.metadata.namespace}/pods/${pod.metadata.name}:8080/proxy/readyz`;
  const isRunning = pod.status?.containerStatuses?.some(({ state }) => state?.running);
  return {
    severity: 'error',
    what: `The agent on node ${node} is not ready, so pods with volumes may not start there.`,
    evidence,
    fix: isRunning
      ? `kubectl get --raw ${path}   # says why`
      : `kubectl logs ${placeOf(pod)} --previous\nkubectl describe pod ${placeOf(pod)}`,
  };
}

/** Why the containers of a pod do not run or are not ready. */
export function stateOf({ metadata, status }: Stored<Pod>): string[] {
  const states = (status?.containerStatuses ?? [])
    .filter(({ ready }) => !ready)
    .map(({ name, state, lastState, restartCount }) => {
      const { waiting, terminated } = state ?? {};
      const now = waiting ?? terminated;
      const why = now ? [now.reason, now.message].filter(Boolean).join(': ') : 'running, not ready';
      const last = lastState?.terminated;
      const ended = last ? `; ended before with ${last.reason ?? ''} (exit code ${last.exitCode})` : '';
      return `container ${name}: ${why}${ended}${restartCount > 0 ? `; ${count(restartCount, 'restart')}` : ''}`;
    });
  return states.length > 0 ? states : [`pod ${metadata.name}: ${status?.phase ?? 'unknown phase'}`];
}

const shownEvents = 3;

/** The last warnings about an object. */
export function messagesAbout(name: string, warnings: readonly Stored<Event>[]): string[] {
  const messages = warnings
    .filter(({ regarding }) => regarding?.name === name)
    .toSorted((one, other) => lastOf(one) - lastOf(other))
    .map(({ reason, note }) => `${reason}: ${note}`);
  return [...new Set(messages)].slice(-shownEvents);
}

function lastOf({ series, deprecatedLastTimestamp, eventTime, metadata }: Stored<Event>): number {
  return Date.parse(series?.lastObservedTime ?? deprecatedLastTimestamp ?? eventTime ?? metadata.creationTimestamp);
}

export const reports = area({
  name: 'reports',
  needs: ['nodes', 'pods', 'reports'],
  judge({ nodes, pods, reports, nowMs }) {
    const serving = servingAgents(pods, nowMs);
    const byName = new Map(reports.map((each) => [each.metadata.name, each.status]));
    const findings = nodes.flatMap(({ metadata: { name, uid } }): Finding[] => {
      const agent = serving.get(name);
      if (!agent) return [];
      const status = byName.get(name);
      const fix = `kubectl logs ${placeOf(agent)} | grep -i nodestorage`;
      if (!status) {
        const what = `Node ${name} does not report its storage, although its agent is ready.`;
        return [{ severity: 'error', what, evidence: [`there is no NodeStorage ${name}`], fix }];
      }
      if (status.nodeUID === uid) return [];
      const what = `The NodeStorage of node ${name} is of an earlier machine of that name.`;
      const evidence = [`nodeUID ${status.nodeUID}, the Node has uid ${uid}`, `updatedAt ${status.updatedAt}`];
      return [{ severity: 'error', what, evidence, fix }];
    });
    return { summary: `${count(serving.size, 'node')} with a current NodeStorage`, findings };
  },
});

export const registration = area({
  name: 'registration',
  needs: ['nodes', 'pods', 'csiDrivers', 'csiNodes'],
  judge({ nodes, pods, csiDrivers, csiNodes, nowMs }) {
    const serving = servingAgents(pods, nowMs);
    const byName = new Map(csiNodes.map((each) => [each.metadata.name, each]));
    const registered = nodes.filter(({ metadata }) => serving.has(metadata.name));
    const findings = registered.flatMap((node) => {
      const agent = serving.get(node.metadata.name);
      return agent ? registrationFindings(node, agent, byName.get(node.metadata.name)) : [];
    });
    const hasDriver = csiDrivers.some(({ metadata }) => metadata.name === driverName);
    return {
      summary: `${driverName}, by the kubelets of ${count(registered.length, 'node')}`,
      findings: hasDriver || serving.size === 0 ? findings : [noDriver, ...findings],
    };
  },
});

const noDriver: Finding = {
  severity: 'error',
  what: `CSIDriver ${driverName} is missing, so the scheduler ignores free space and inline volumes do not work.`,
  evidence: [`there is no CSIDriver ${driverName}`],
  fix: 'kubectl apply -f deploy/csidriver.yaml   # or helm upgrade, which creates it again',
};

function registrationFindings({ metadata }: Stored<Node>, agent: Stored<Pod>, csiNode: Stored<CsiNode> | undefined) {
  const { name } = metadata;
  const driver = csiNode?.spec.drivers.find((each) => each.name === driverName);
  if (!driver) {
    const directory = argumentOf(agent, '--kubelet-dir') ?? 'unknown';
    const finding: Finding = {
      severity: 'error',
      what: `The kubelet of node ${name} does not know the driver, although the agent is ready: it may use another directory.`,
      evidence: [`CSINode ${name} has no driver ${driverName}`, `the agent uses --kubelet-dir=${directory}`],
      fix: `ps -o args= -C kubelet   # on the node: --root-dir, which is /var/lib/kubelet by default\nhelm upgrade moorage deploy/helm/moorage -n ${agent.metadata.namespace} --reuse-values --set node.kubeletWorkDirectory=DIRECTORY`,
    };
    return [finding];
  }
  const label = metadata.labels?.[topologyKey];
  if (label === name && driver.topologyKeys?.includes(topologyKey)) return [];
  const finding: Finding = {
    severity: 'error',
    what: `Node ${name} has the wrong topology, so no volume can be placed there.`,
    evidence: [
      `label ${topologyKey}: ${label ?? 'missing'}`,
      `topologyKeys of CSINode: ${some(driver.topologyKeys ?? []) || 'none'}`,
    ],
    fix: `kubectl delete pod ${placeOf(agent)}   # the new agent registers again`,
  };
  return [finding];
}

import { hostname } from 'node:os';
import { defaultMountBase } from './api/local-pv.ts';
import { systemClock } from './base/clock.ts';
import { type Commands, command, type Program } from './base/command.ts';
import { duration, type Flags, list, oneOf, onOff, path, quantities, quantity, text } from './base/flags.ts';
import type { Log, LogLevel } from './base/log.ts';
import { configFlag, healthCommand } from './cli/health-command.ts';
import { poolCommand } from './cli/pool-commands.ts';
import { volumeCommand } from './cli/volume-commands.ts';

const csiSocket = {
  name: 'csi-socket',
  type: path,
  default: '/run/topolvm/csi-topolvm.sock',
  description: 'Unix socket to serve CSI on',
} as const;
const metricsAddress = {
  name: 'metrics-addr',
  aliases: ['metrics-bind-address'],
  type: text,
  default: ':8080',
  description: 'Address to serve /metrics, /healthz and /readyz on',
} as const;
const stateDirectory = {
  name: 'state-dir',
  type: path,
  default: '/var/lib/moorage-state',
  description: "Directory on the machine's own disk for the record of which directories hold volumes",
} as const;
const secureMetricsServer = {
  name: 'secure-metrics-server',
  type: onOff,
  default: false,
  description: 'TLS on the metrics address; /metrics needs a token whose owner may get the nonResourceURL /metrics',
} as const;
const mountBase = {
  name: 'local-pv-mount-base',
  type: path,
  default: defaultMountBase,
  description: 'Directory on the nodes that the paths of static volumes are in',
} as const;
const kubeconfig = {
  name: 'kubeconfig',
  type: path,
  default: '',
  env: 'KUBECONFIG',
  description: "Kubeconfig file for the API server; empty for the pod's service account",
} as const;
const logLevel = {
  name: 'log-level',
  type: oneOf(['trace', 'debug', 'info', 'warn', 'error']),
  default: 'info',
  description: 'Minimum log level',
} as const;

const nodeFlags = {
  nodeName: {
    name: 'nodename',
    type: text,
    env: 'NODE_NAME',
    description: 'Name of the Node object of this machine',
  },
  config: { ...configFlag, description: 'File with the device classes of this node; empty for none' },
  csi: {
    name: 'csi',
    type: onOff,
    default: true,
    description: 'CSI for the kubelet; false for an agent that only serves static volumes (--local-pv)',
  },
  csiSocket,
  lvmdSocket: {
    name: 'lvmd-socket',
    type: path,
    default: '/run/topolvm/lvmd.sock',
    description: 'Unix socket of lvmd, served by this process, or by another one with --embed-lvmd=false',
  },
  embedLvmd: {
    name: 'embed-lvmd',
    type: onOff,
    default: true,
    description: 'Storage engine in this process; false if an lvmd runs on the machine',
  },
  kubeletDir: {
    name: 'kubelet-dir',
    type: path,
    default: '/var/lib/kubelet',
    description: 'Root directory of the kubelet, where the driver registers itself',
  },
  inlineVolumes: {
    name: 'inline-volumes',
    type: onOff,
    default: true,
    description: 'Inline ephemeral volumes for pods; false refuses new ones',
  },
  inlineDeviceClasses: {
    name: 'inline-device-classes',
    type: list,
    default: [],
    description: 'Device classes for inline volumes, besides the default class; comma-separated',
  },
  inlineMaxSize: {
    name: 'inline-max-size',
    type: quantity,
    default: 10n * 1024n ** 3n,
    description: 'Maximum size of an inline volume',
  },
  moveAddress: {
    name: 'move-addr',
    type: text,
    default: ':7443',
    description: 'Address to serve volumes that move to other nodes on',
  },
  moveHost: {
    name: 'move-host',
    type: text,
    default: '',
    env: 'POD_IP',
    description: 'Host at which other agents reach that address; empty: no volume moves from or to this node',
  },
  localPv: {
    name: 'local-pv',
    type: onOff,
    default: false,
    description: 'Static volumes: PersistentVolumes with a local path, whose volumes this agent creates and mounts',
  },
  mountBase,
  mounts: {
    name: 'local-pv-mounts',
    type: oneOf(['agent', 'systemd']),
    default: 'agent',
    description: "What mounts static volumes: this agent, or the node's systemd, also while no agent runs",
  },
  defaultsName: {
    name: 'local-pv-defaults',
    type: text,
    default: '',
    description: 'ConfigMap with defaults for static volumes, in the namespace of the agent; empty for none',
  },
  namespace: {
    name: 'namespace',
    type: text,
    default: '',
    env: 'POD_NAMESPACE',
    description: 'Namespace of the agent, with that ConfigMap and the Secrets of encrypted static volumes',
  },
  releases: {
    name: 'release',
    short: 'R',
    type: onOff,
    default: false,
    description: 'Released static volumes that allow it are emptied for the next claim',
  },
  sanityChecks: {
    name: 'sanity-checks',
    short: 's',
    type: onOff,
    default: false,
    description: 'Warning at the start about mounts of static volumes that no PersistentVolume names',
  },
  stateDirectory,
  metricsAddress,
  secureMetricsServer,
  kubeconfig,
  logLevel,
  debug: {
    name: 'debug',
    short: 'v',
    type: onOff,
    default: false,
    description: 'The same as --log-level=debug',
  },
} as const satisfies Flags;

const lvmdFlags = { config: configFlag, stateDirectory, metricsAddress, logLevel } as const satisfies Flags;

const controllerFlags = {
  csi: {
    name: 'csi',
    type: onOff,
    default: true,
    description: 'CSI, and the reconcilers that it needs; false for static volumes only',
  },
  csiSocket,
  localPv: {
    name: 'local-pv',
    type: onOff,
    default: false,
    description: 'Static volumes: PersistentVolumes with a local path, whose nodes the controller finds',
  },
  localPvMountBase: mountBase,
  localPvDefaults: {
    name: 'local-pv-defaults',
    type: text,
    default: '',
    description: 'ConfigMap with defaults for static volumes, in the namespace of the leader-election Lease',
  },
  enableWebhooks: {
    name: 'enable-webhooks',
    type: onOff,
    default: false,
    description:
      'Admission webhooks: the one that annotates pods with the capacity they request, for the scheduler extender',
  },
  evictionWebhook: {
    name: 'eviction-webhook',
    type: onOff,
    default: false,
    description: 'With --enable-webhooks: also the one that decides about evictions from nodes that are drained',
  },
  webhookAddress: {
    name: 'webhook-addr',
    type: text,
    default: ':9443',
    description: 'Address to serve webhooks on',
  },
  certDir: {
    name: 'cert-dir',
    type: path,
    default: '/certs',
    description: 'Directory with tls.crt and tls.key for webhooks; renewed files are loaded again',
  },
  webhookService: {
    name: 'webhook-service',
    type: text,
    default: '',
    description:
      'DNS name of the webhook Service, <service>.<namespace>.svc; if set, the controller creates and renews its own certificates and ignores --cert-dir',
  },
  skipNodeFinalize: {
    name: 'skip-node-finalize',
    type: onOff,
    default: false,
    description: 'No cleanup after a deleted Node: only its finalizer is removed; claims, pods and LogicalVolumes stay',
  },
  freshNodeCapacity: {
    name: 'fresh-node-capacity',
    type: quantities,
    default: new Map(),
    description:
      'Free space of a node that Cluster Autoscaler would add, by device class, such as ssd=400Gi,00default=400Gi; empty for no autoscaler',
  },
  startupTaint: {
    name: 'startup-taint',
    type: text,
    default: '',
    description: 'Key of the taint that is removed from a Node once its free space is published; empty for none',
  },
  leaderElection: {
    name: 'leader-election',
    type: onOff,
    default: true,
    description: 'Leader election among replicas; all replicas serve CSI, only the leader runs reconcilers',
  },
  leaderElectionId: {
    name: 'leader-election-id',
    type: text,
    default: 'topolvm',
    description: 'Name of the leader-election Lease',
  },
  leaderElectionNamespace: {
    name: 'leader-election-namespace',
    type: text,
    default: 'moorage-system',
    env: 'POD_NAMESPACE',
    description:
      'Namespace of the leader-election Lease, of the CSIStorageCapacity objects and of the defaults for static volumes',
  },
  leaseDurationMs: {
    name: 'leader-election-lease-duration',
    type: duration,
    default: 15_000,
    description: 'Time that other replicas wait for a leader that does not renew its Lease',
  },
  renewDeadlineMs: {
    name: 'leader-election-renew-deadline',
    type: duration,
    default: 10_000,
    description: 'Time that a leader tries to renew its Lease before it gives up leadership',
  },
  retryPeriodMs: {
    name: 'leader-election-retry-period',
    type: duration,
    default: 2_000,
    description: 'Time between two attempts to acquire or renew the Lease',
  },
  metricsAddress,
  secureMetricsServer,
  kubeconfig,
  logLevel,
} as const satisfies Flags;

const schedulerFlags = {
  config: {
    name: 'config',
    type: path,
    default: '',
    description: 'File with the listen address and the score divisors; empty for the defaults',
  },
  logLevel,
} as const satisfies Flags;

const standaloneFlags = {
  csiSocket,
  config: {
    ...configFlag,
    default: '',
    description: 'File with the device classes of this machine; empty for volumes as files in /var/lib/moorage',
  },
  nodeName: {
    name: 'nodename',
    type: text,
    default: '',
    env: 'NODE_NAME',
    description: 'Name of this machine in the topology of its volumes; empty for its hostname',
  },
  stateDirectory,
  logLevel,
} as const satisfies Flags;

const uninstallCheckFlags = { kubeconfig, logLevel } as const satisfies Flags;

async function logOf(process: string, level: LogLevel): Promise<Log> {
  const { createLog } = await import('./base/log.ts');
  return createLog(process, level);
}

/** Each command imports only what it needs, to start fast and to save memory on nodes. */
const commands: Commands = {
  node: command({
    summary: 'serve CSI to the kubelet and manage the volumes of this node',
    alias: 'topolvm-node',
    flags: nodeFlags,
    async run(flags, { env, version, signal }) {
      const inlineLimits = {
        enabled: flags.inlineVolumes,
        deviceClasses: flags.inlineDeviceClasses,
        maxSizeBytes: flags.inlineMaxSize,
      };
      const { Launcher } = await import('./base/launcher.ts');
      using launcher = new Launcher({ env, clock: systemClock });
      const log = await logOf('node', flags.debug ? 'debug' : flags.logLevel);
      const collaborators = { run: launcher.run, env, clock: systemClock, log };
      const { withClient } = await import('./kube/with-client.ts');
      const { runNode } = await import('./node/node-process.ts');
      await withClient({ ...collaborators, kubeconfigFile: flags.kubeconfig }, (client) =>
        runNode(
          { ...flags, configFile: flags.config, localPv: flags.localPv ? flags : undefined, inlineLimits, version },
          { ...collaborators, client },
          signal,
        ),
      );
    },
  }),
  lvmd: command({
    summary: 'run only the storage engine, on the socket that its configuration names',
    flags: lvmdFlags,
    async run(flags, { env, signal }) {
      const { Launcher } = await import('./base/launcher.ts');
      using launcher = new Launcher({ env, clock: systemClock });
      const collaborators = { run: launcher.run, env, clock: systemClock, log: await logOf('lvmd', flags.logLevel) };
      const { runLvmd } = await import('./lvmd/lvmd-process.ts');
      await runLvmd({ ...flags, configFile: flags.config }, collaborators, signal);
    },
    commands: { health: healthCommand },
  }),
  controller: command({
    summary: 'serve CSI to the sidecars, and static volumes, for the whole cluster',
    alias: 'topolvm-controller',
    flags: controllerFlags,
    async run(flags, { env, version, signal }) {
      const collaborators = { env, clock: systemClock, log: await logOf('controller', flags.logLevel) };
      const { withClient } = await import('./kube/with-client.ts');
      const { runController } = await import('./controller/controller-process.ts');
      await withClient({ ...collaborators, kubeconfigFile: flags.kubeconfig }, (client) =>
        runController({ ...flags, version }, { ...collaborators, client }, signal),
      );
    },
  }),
  scheduler: command({
    summary: 'run the kube-scheduler extender, for clusters without storage capacity tracking',
    alias: 'topolvm-scheduler',
    flags: schedulerFlags,
    async run(flags, { signal }) {
      const { runScheduler } = await import('./scheduler/scheduler-process.ts');
      await runScheduler({ configFile: flags.config }, { log: await logOf('scheduler', flags.logLevel) }, signal);
    },
  }),
  standalone: command({
    summary: 'serve all of CSI for this machine, without Kubernetes',
    flags: standaloneFlags,
    async run(flags, { env, version, signal }) {
      const { Launcher } = await import('./base/launcher.ts');
      using launcher = new Launcher({ env, clock: systemClock });
      const collaborators = {
        run: launcher.run,
        env,
        clock: systemClock,
        log: await logOf('standalone', flags.logLevel),
      };
      const { runStandalone } = await import('./standalone/standalone-process.ts');
      await runStandalone(
        { ...flags, nodeName: flags.nodeName || hostname(), configFile: flags.config, version },
        collaborators,
        signal,
      );
    },
  }),
  'uninstall-check': command({
    summary: 'fail if the cluster still has volumes; the chart runs it before an uninstall',
    flags: uninstallCheckFlags,
    async run(flags, { env }) {
      const collaborators = { env, clock: systemClock, log: await logOf('uninstall-check', flags.logLevel) };
      const { withClient } = await import('./kube/with-client.ts');
      const { checkUninstall } = await import('./cli/uninstall-check.ts');
      await withClient({ ...collaborators, kubeconfigFile: flags.kubeconfig }, (client) => checkUninstall(client));
    },
  }),
  volume: volumeCommand,
  pool: poolCommand,
};

export const moorage: Program = { name: 'moorage', summary: 'local LVM volumes for Kubernetes', commands };

import { hostname } from 'node:os';
import { systemClock } from './base/clock.ts';
import { duration, type Flags, type FlagValues, list, oneOf, onOff, parseFlags, quantity, text } from './base/flags.ts';
import { Launcher } from './base/launcher.ts';
import { createLog, logLevels } from './base/log.ts';
import type { Commands } from './cli/command.ts';
import { configFlag, healthCommand } from './cli/health-command.ts';
import { poolCommand } from './cli/pool-commands.ts';
import { volumeCommand } from './cli/volume-commands.ts';

const csiSocket = {
  name: 'csi-socket',
  type: text,
  default: '/run/topolvm/csi-topolvm.sock',
  description: 'Unix socket on which CSI is served',
} as const;
const metricsAddress = {
  name: 'metrics-addr',
  aliases: ['metrics-bind-address'],
  type: text,
  default: ':8080',
  description: 'Address on which /metrics, /healthz and /readyz are served',
} as const;
const stateDirectory = {
  name: 'state-dir',
  type: text,
  default: '/var/lib/moorage-state',
  description: "Directory on the machine's own disk that remembers which directories hold volumes",
} as const;
const secureMetricsServer = {
  name: 'secure-metrics-server',
  type: onOff,
  default: false,
  description:
    'Serve that address with TLS, and /metrics only to tokens whose owner may get the nonResourceURL /metrics',
} as const;
const kubeconfig = {
  name: 'kubeconfig',
  type: text,
  default: '',
  env: 'KUBECONFIG',
  description: 'File that says how to reach the API server; empty inside a cluster, where the pod knows',
} as const;
const logLevel = {
  name: 'log-level',
  type: oneOf(logLevels),
  default: 'info',
  description: 'The least important log lines to write',
} as const;

const nodeFlags = {
  nodeName: {
    name: 'nodename',
    type: text,
    env: 'NODE_NAME',
    description: 'Name of the Node object of the machine that this runs on',
  },
  config: configFlag,
  csiSocket,
  lvmdSocket: {
    name: 'lvmd-socket',
    type: text,
    default: '/run/topolvm/lvmd.sock',
    description: 'Unix socket of lvmd: this process serves it, or with --embed-lvmd=false another one does',
  },
  embedLvmd: {
    name: 'embed-lvmd',
    type: onOff,
    default: true,
    description: 'Run the storage engine in this process; false where an lvmd runs on the machine',
  },
  kubeletDir: {
    name: 'kubelet-dir',
    type: text,
    default: '/var/lib/kubelet',
    description: "The kubelet's root directory, where the driver makes itself known",
  },
  inlineVolumes: {
    name: 'inline-volumes',
    type: onOff,
    default: true,
    description: 'Create the inline ephemeral volumes that pods request; false refuses new ones',
  },
  inlineDeviceClasses: {
    name: 'inline-device-classes',
    type: list,
    default: [],
    description: 'Device classes that inline volumes may use besides the default one, separated by commas',
  },
  inlineMaxSize: {
    name: 'inline-max-size',
    type: quantity,
    default: 10n * 1024n ** 3n,
    description: 'Maximum size of an inline volume',
  },
  stateDirectory,
  metricsAddress,
  secureMetricsServer,
  kubeconfig,
  logLevel,
} as const satisfies Flags;

const lvmdFlags = { config: configFlag, stateDirectory, metricsAddress, logLevel } as const satisfies Flags;

const controllerFlags = {
  csiSocket,
  enableWebhooks: {
    name: 'enable-webhooks',
    type: onOff,
    default: false,
    description: "Serve the pod webhook, which writes on pods what the scheduler's extender asks for",
  },
  webhookAddress: {
    name: 'webhook-addr',
    type: text,
    default: ':9443',
    description: 'Address on which webhooks are served',
  },
  certDir: {
    name: 'cert-dir',
    type: text,
    default: '/certs',
    description: 'Directory with tls.crt and tls.key, to serve webhooks with; renewed files are taken up',
  },
  webhookService: {
    name: 'webhook-service',
    type: text,
    default: '',
    description:
      'Name that webhooks are called by, <service>.<namespace>.svc: this process makes and renews its certificates itself, and --cert-dir is not used',
  },
  skipNodeFinalize: {
    name: 'skip-node-finalize',
    type: onOff,
    default: false,
    description: 'Let a Node that is deleted go at once, and leave its claims, pods and LogicalVolumes as they are',
  },
  leaderElection: {
    name: 'leader-election',
    type: onOff,
    default: true,
    description: 'Let one of several replicas do what only one may do; all of them serve CSI',
  },
  leaderElectionId: {
    name: 'leader-election-id',
    type: text,
    default: 'topolvm',
    description: 'Name of the Lease that says which one',
  },
  leaderElectionNamespace: {
    name: 'leader-election-namespace',
    type: text,
    default: 'moorage-system',
    env: 'POD_NAMESPACE',
    description: 'Namespace of the leader-election Lease and of the CSIStorageCapacity objects',
  },
  leaseDurationMs: {
    name: 'leader-election-lease-duration',
    type: duration,
    default: 15_000,
    description: 'How long the others wait for a leader that says nothing',
  },
  renewDeadlineMs: {
    name: 'leader-election-renew-deadline',
    type: duration,
    default: 10_000,
    description: 'How long a leader tries to reach the API server before it stops to lead',
  },
  retryPeriodMs: {
    name: 'leader-election-retry-period',
    type: duration,
    default: 2_000,
    description: 'How long between two tries',
  },
  metricsAddress,
  secureMetricsServer,
  kubeconfig,
  logLevel,
} as const satisfies Flags;

const schedulerFlags = {
  config: {
    name: 'config',
    type: text,
    default: '',
    description: 'File with the address and the divisors of the scores; empty for the defaults',
  },
  logLevel,
} as const satisfies Flags;

const standaloneFlags = {
  csiSocket,
  config: {
    ...configFlag,
    default: '',
    description: 'File with the device classes of this machine; without one, volumes are files in /var/lib/moorage',
  },
  nodeName: {
    name: 'nodename',
    type: text,
    default: '',
    env: 'NODE_NAME',
    description: "Name of this machine in the topology of its volumes; empty for the machine's own",
  },
  stateDirectory,
  logLevel,
} as const satisfies Flags;

const uninstallCheckFlags = { kubeconfig, logLevel } as const satisfies Flags;

/** Each process loads its own parts only: a node's memory belongs to its workloads, and people do not like to wait. */
export const commands: Commands = {
  node: {
    summary: "serves CSI to the kubelet and manages this node's volumes",
    alias: 'topolvm-node',
    flags: nodeFlags,
    async run(args, { env, version, signal }) {
      const flags: FlagValues<typeof nodeFlags> = parseFlags(nodeFlags, args, env);
      const inlineLimits = {
        enabled: flags.inlineVolumes,
        deviceClasses: flags.inlineDeviceClasses,
        maxSizeBytes: flags.inlineMaxSize,
      };
      using launcher = new Launcher({ env, clock: systemClock });
      const its = { run: launcher.run, env, clock: systemClock, log: createLog('node', flags.logLevel) };
      const { withClient } = await import('./kube/with-client.ts');
      const { runNode } = await import('./node/node-process.ts');
      await withClient({ ...its, kubeconfigFile: flags.kubeconfig }, (client) =>
        runNode({ ...flags, configFile: flags.config, inlineLimits, version }, { ...its, client }, signal),
      );
    },
  },
  lvmd: {
    summary: 'serves the storage engine alone, on the socket that its configuration names',
    flags: lvmdFlags,
    async run(args, { env, signal }) {
      const flags: FlagValues<typeof lvmdFlags> = parseFlags(lvmdFlags, args, env);
      using launcher = new Launcher({ env, clock: systemClock });
      const its = { run: launcher.run, env, clock: systemClock, log: createLog('lvmd', flags.logLevel) };
      const { runLvmd } = await import('./lvmd/lvmd-process.ts');
      await runLvmd({ ...flags, configFile: flags.config }, its, signal);
    },
    commands: { health: healthCommand },
  },
  controller: {
    summary: 'serves CSI to the sidecars, once for the cluster',
    alias: 'topolvm-controller',
    flags: controllerFlags,
    async run(args, { env, version, signal }) {
      const flags: FlagValues<typeof controllerFlags> = parseFlags(controllerFlags, args, env);
      const its = { env, clock: systemClock, log: createLog('controller', flags.logLevel) };
      const { withClient } = await import('./kube/with-client.ts');
      const { runController } = await import('./controller/controller-process.ts');
      await withClient({ ...its, kubeconfigFile: flags.kubeconfig }, (client) =>
        runController({ ...flags, version }, { ...its, client }, signal),
      );
    },
  },
  scheduler: {
    summary: "is kube-scheduler's extender, for clusters without storage capacity tracking",
    alias: 'topolvm-scheduler',
    flags: schedulerFlags,
    async run(args, { env, signal }) {
      const flags: FlagValues<typeof schedulerFlags> = parseFlags(schedulerFlags, args, env);
      const { runScheduler } = await import('./scheduler/scheduler-process.ts');
      await runScheduler({ configFile: flags.config }, { log: createLog('scheduler', flags.logLevel) }, signal);
    },
  },
  standalone: {
    summary: 'serves all of CSI for this machine alone, without Kubernetes',
    flags: standaloneFlags,
    async run(args, { env, version, signal }) {
      const flags: FlagValues<typeof standaloneFlags> = parseFlags(standaloneFlags, args, env);
      using launcher = new Launcher({ env, clock: systemClock });
      const its = { run: launcher.run, env, clock: systemClock, log: createLog('standalone', flags.logLevel) };
      const { runStandalone } = await import('./standalone/standalone-process.ts');
      await runStandalone(
        { ...flags, nodeName: flags.nodeName || hostname(), configFile: flags.config, version },
        its,
        signal,
      );
    },
  },
  'uninstall-check': {
    summary: 'fails while the cluster has volumes; the chart asks it before it is uninstalled',
    flags: uninstallCheckFlags,
    async run(args, { env }) {
      const flags: FlagValues<typeof uninstallCheckFlags> = parseFlags(uninstallCheckFlags, args, env);
      const its = { env, clock: systemClock, log: createLog('uninstall-check', flags.logLevel) };
      const { withClient } = await import('./kube/with-client.ts');
      const { checkUninstall } = await import('./cli/uninstall-check.ts');
      await withClient({ ...its, kubeconfigFile: flags.kubeconfig }, (client) => checkUninstall(client));
    },
  },
  volume: volumeCommand,
  pool: poolCommand,
};

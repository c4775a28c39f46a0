import { systemClock } from './base/clock.ts';
import { InvalidInput } from './base/errors.ts';
import { run } from './base/exec.ts';
import { asksForHelp, describeFlags, type Flags, type FlagValues, oneOf, parseFlags, text } from './base/flags.ts';
import { createLog, type Log, logLevels } from './base/log.ts';
import { runController } from './controller/controller-process.ts';
import { KubeClient } from './kube/client.ts';
import type { Connection } from './kube/connection.ts';
import { connectionFromKubeconfig, connectionInCluster } from './kube/credentials.ts';
import { runNode } from './node/node-process.ts';

/** What a command is given by the world. */
export interface Surroundings {
  readonly env: NodeJS.ProcessEnv;
  readonly version: string;
  /** Aborts when the process is told to stop. */
  readonly signal: AbortSignal;
  readonly print: (text: string) => void;
}

interface Command {
  readonly summary: string;
  /** What TopoLVM calls it. */
  readonly alias: string;
  readonly flags: Flags;
  run(args: readonly string[], surroundings: Surroundings): Promise<void>;
}

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
  description: 'Address on which /metrics and /healthz are served',
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
  config: {
    name: 'config',
    type: text,
    default: '/etc/topolvm/lvmd.yaml',
    description: 'File with the device classes of this node',
  },
  csiSocket,
  kubeletDir: {
    name: 'kubelet-dir',
    type: text,
    default: '/var/lib/kubelet',
    description: "The kubelet's root directory, where the driver makes itself known",
  },
  metricsAddress,
  kubeconfig,
  logLevel,
} as const satisfies Flags;

const controllerFlags = { csiSocket, metricsAddress, kubeconfig, logLevel } as const satisfies Flags;

export const commands: Readonly<Record<string, Command>> = {
  node: {
    summary: "serves CSI to the kubelet and manages this node's volumes",
    alias: 'topolvm-node',
    flags: nodeFlags,
    async run(args, { env, version, signal }) {
      const flags: FlagValues<typeof nodeFlags> = parseFlags(nodeFlags, args, env);
      const log = createLog('node', flags.logLevel);
      await withClient(flags.kubeconfig, env, log, (client) =>
        runNode({ ...flags, configFile: flags.config, version }, { client, run, env, clock: systemClock, log }, signal),
      );
    },
  },
  controller: {
    summary: 'serves CSI to the sidecars, once for the cluster',
    alias: 'topolvm-controller',
    flags: controllerFlags,
    async run(args, { env, version, signal }) {
      const flags: FlagValues<typeof controllerFlags> = parseFlags(controllerFlags, args, env);
      const log = createLog('controller', flags.logLevel);
      await withClient(flags.kubeconfig, env, log, (client) =>
        runController({ ...flags, version }, { client, clock: systemClock, log }, signal),
      );
    },
  },
};

/** `calledAs` is the name of the program file: a link named as TopoLVM's programs needs no further word. */
export async function runCommand(calledAs: string, args: readonly string[], surroundings: Surroundings): Promise<void> {
  const words = find(calledAs) ? [calledAs, ...args] : args;
  const [word = '--help', ...rest] = words;
  const command = find(word);
  if (command) {
    if (asksForHelp(rest)) surroundings.print(helpOn(command));
    else await command.run(rest, surroundings);
  } else if (asksForHelp([word])) {
    surroundings.print(help());
  } else if (word === '--version') {
    surroundings.print(surroundings.version);
  } else {
    throw new InvalidInput(`there is no command ${JSON.stringify(word)}; see moorage --help`);
  }
}

function find(word: string): Command | undefined {
  return Object.entries(commands).find(([name, { alias }]) => name === word || alias === word)?.[1];
}

function help(): string {
  const rows = Object.entries(commands).map(
    ([name, { alias, summary }]) => `  ${`${name}, ${alias}`.padEnd(32)}${summary}`,
  );
  return [
    'Moorage: local LVM volumes for Kubernetes.',
    '',
    'Usage: moorage <command> [flags]',
    '',
    'Commands:',
    ...rows,
    '',
    'moorage <command> --help shows the flags of a command; moorage --version the version.',
  ].join('\n');
}

function helpOn(command: Command): string {
  const name = Object.keys(commands).find((key) => commands[key] === command);
  const summary = `${name}: ${command.summary}.`;
  return [`moorage ${summary}`, '', `Usage: moorage ${name} [flags]`, '', 'Flags:', describeFlags(command.flags)].join(
    '\n',
  );
}

async function withClient(
  kubeconfigFile: string,
  env: NodeJS.ProcessEnv,
  log: Log,
  use: (client: KubeClient) => Promise<void>,
): Promise<void> {
  const client = new KubeClient({ connection: await connect(kubeconfigFile, env), clock: systemClock, log });
  try {
    await use(client);
  } finally {
    await client.close();
  }
}

async function connect(kubeconfigFile: string, env: NodeJS.ProcessEnv): Promise<Connection> {
  if (kubeconfigFile) return connectionFromKubeconfig(kubeconfigFile, systemClock);
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = env;
  if (!host || !port) {
    throw new InvalidInput('this is no pod of a cluster, so nothing says where the API server is; pass --kubeconfig');
  }
  return connectionInCluster({ host, port }, systemClock);
}

import { dirname, join } from 'node:path';
import type { Topolvm } from '../topolvm/topolvm.ts';
import type { SidePrograms } from './side.ts';

const home = join(import.meta.dirname, '..', '..');

/** As its chart runs it, without the webhook and with lvmd as a separate program. */
export function topolvmPrograms(programs: Topolvm): SidePrograms {
  return {
    name: 'topolvm',
    stages: false,
    agents: ({ nodeName, config, lvmdSocket, nodeSocket }) => [
      { command: [programs.lvmd, `--config=${config}`, '--metrics-bind-address=0'], socket: lvmdSocket },
      {
        command: [
          programs.node,
          `--nodename=${nodeName}`,
          `--lvmd-socket=${lvmdSocket}`,
          `--csi-socket=${nodeSocket}`,
          '--metrics-bind-address=127.0.0.1:8081',
        ],
        socket: nodeSocket,
      },
    ],
    controller: ({ controllerSocket }) => [
      programs.controller,
      `--csi-socket=${controllerSocket}`,
      '--metrics-bind-address=127.0.0.1:8081',
      '--health-probe-bind-address=0',
      '--enable-webhooks=false',
      '--leader-election=false',
    ],
  };
}

/** As it ships, with the engine in the agent; `npm run build` creates it. */
export function mooragePrograms(): SidePrograms {
  const moorage = ['env', `PATH=${dirname(process.execPath)}:${process.env['PATH']}`, join(home, 'dist', 'moorage')];
  return {
    name: 'moorage',
    stages: true,
    agents: ({ dir, nodeName, kubeconfig, config, lvmdSocket, nodeSocket }) => [
      {
        command: [
          ...moorage,
          'node',
          `--nodename=${nodeName}`,
          `--config=${config}`,
          `--kubeconfig=${kubeconfig}`,
          `--lvmd-socket=${lvmdSocket}`,
          `--csi-socket=${nodeSocket}`,
          `--kubelet-dir=${join(dir, 'kubelet')}`,
          '--metrics-addr=127.0.0.1:8082',
        ],
        socket: nodeSocket,
      },
    ],
    controller: ({ controllerSocket, kubeconfig }) => [
      ...moorage,
      'controller',
      `--csi-socket=${controllerSocket}`,
      `--kubeconfig=${kubeconfig}`,
      '--metrics-addr=127.0.0.1:8082',
    ],
  };
}

import { mkdir, rm } from 'node:fs/promises';
import { request } from 'node:https';
import { join } from 'node:path';
import { eventually } from '../host/eventually.ts';
import type { Binaries } from './binaries.ts';
import { CertificateAuthority } from './certificates.ts';
import { Component } from './component.ts';
import { forwardPort } from './forward-port.ts';
import type { Namespaces } from './namespaces.ts';
import { network } from './network.ts';

const etcdUrl = 'http://127.0.0.1:2379';
const etcdPeerUrl = 'http://127.0.0.1:2380';
const apiServerUrl = `https://${network.apiServer.host}:${network.apiServer.port}`;

/** Less than Kubernetes' default of 50, so that tests wait less for a node to be NotReady. */
const nodeGraceSeconds = 20;

/** etcd, API server, controller manager and scheduler, as in a real cluster. */
export class ControlPlane {
  readonly authority: CertificateAuthority;
  /** For programs in the cluster's namespaces and on its nodes. */
  readonly url = apiServerUrl;
  readonly etcd: Component;
  readonly apiServer: Component;
  readonly controllerManager: Component;
  readonly scheduler: Component;
  /** An administrator's kubeconfig for programs on the host. */
  readonly kubeconfig: string;
  readonly #etcdDir: string;
  readonly #forwardedPort: number;

  private constructor(
    authority: CertificateAuthority,
    kubeconfig: string,
    etcdDir: string,
    forwardedPort: number,
    components: Component[],
  ) {
    this.authority = authority;
    this.kubeconfig = kubeconfig;
    this.#etcdDir = etcdDir;
    this.#forwardedPort = forwardedPort;
    [this.etcd, this.apiServer, this.controllerManager, this.scheduler] = components as [
      Component,
      Component,
      Component,
      Component,
    ];
  }

  static async start(
    namespaces: Namespaces,
    dir: string,
    { kubernetes }: Binaries,
    apiServerFlags: readonly string[],
  ): Promise<ControlPlane> {
    const logs = join(dir, 'logs');
    await mkdir(logs, { recursive: true });
    const authority = new CertificateAuthority(join(dir, 'pki'));
    await authority.create();
    const forwardedPort = await forwardPort(namespaces, network.apiServer);
    const [serving, toKubelets, serviceAccounts, managerConfig, schedulerConfig, kubeconfig] = await Promise.all([
      authority.server('kube-apiserver', '/CN=kube-apiserver', [
        'IP:127.0.0.1',
        `IP:${network.apiServer.host}`,
        'DNS:localhost',
        'DNS:kubernetes.default.svc',
      ]),
      authority.client('apiserver-kubelet-client', '/O=system:masters/CN=apiserver-kubelet-client'),
      authority.serviceAccountKeys(),
      authority.kubeconfig('controller-manager', '/CN=system:kube-controller-manager', apiServerUrl),
      authority.kubeconfig('scheduler', '/CN=system:kube-scheduler', apiServerUrl),
      authority.kubeconfig('admin', '/O=system:masters/CN=admin', `https://127.0.0.1:${forwardedPort}`),
    ]);
    const component = (name: string, argv: readonly string[]) => new Component(namespaces, logs, name, argv);
    const etcdDir = join(dir, 'etcd');
    const plane = new ControlPlane(authority, kubeconfig, etcdDir, forwardedPort, [
      component('etcd', [
        kubernetes.etcd,
        `--data-dir=${etcdDir}`,
        '--unsafe-no-fsync', // a test cluster's etcd need not survive a power loss of the host
        '--log-level=warn',
        `--listen-client-urls=${etcdUrl}`,
        `--advertise-client-urls=${etcdUrl}`,
        `--listen-peer-urls=${etcdPeerUrl}`,
        `--initial-advertise-peer-urls=${etcdPeerUrl}`,
        `--initial-cluster=default=${etcdPeerUrl}`,
      ]),
      component('kube-apiserver', [
        kubernetes['kube-apiserver'],
        `--etcd-servers=${etcdUrl}`,
        `--bind-address=${network.apiServer.host}`,
        `--secure-port=${network.apiServer.port}`,
        `--advertise-address=${network.apiServer.host}`,
        `--service-cluster-ip-range=${network.services}`,
        `--tls-cert-file=${serving.certificate}`,
        `--tls-private-key-file=${serving.key}`,
        `--client-ca-file=${authority.certificate}`,
        `--kubelet-client-certificate=${toKubelets.certificate}`,
        `--kubelet-client-key=${toKubelets.key}`,
        `--kubelet-certificate-authority=${authority.certificate}`,
        '--kubelet-preferred-address-types=InternalIP',
        `--service-account-key-file=${serviceAccounts.publicKey}`,
        `--service-account-signing-key-file=${serviceAccounts.privateKey}`,
        '--service-account-issuer=https://kubernetes.default.svc',
        '--authorization-mode=Node,RBAC',
        '--enable-admission-plugins=NodeRestriction',
        '--enable-aggregator-routing', // calls webhooks at their pods' addresses, because there is no kube-proxy
        '--allow-privileged',
        '--profiling=false',
        ...apiServerFlags,
      ]),
      component('kube-controller-manager', [
        kubernetes['kube-controller-manager'],
        `--kubeconfig=${managerConfig}`,
        '--bind-address=127.0.0.1',
        '--kube-api-qps=1000',
        '--kube-api-burst=1000',
        `--service-account-private-key-file=${serviceAccounts.privateKey}`,
        `--root-ca-file=${authority.certificate}`,
        '--use-service-account-credentials',
        '--node-monitor-period=1s',
        `--node-monitor-grace-period=${nodeGraceSeconds}s`,
        '--leader-elect=false',
        '--profiling=false',
      ]),
      component('kube-scheduler', [
        kubernetes['kube-scheduler'],
        `--kubeconfig=${schedulerConfig}`,
        '--bind-address=127.0.0.1',
        '--leader-elect=false',
        '--profiling=false',
      ]),
    ]);
    await plane.#start();
    return plane;
  }

  async #start(): Promise<void> {
    this.etcd.start();
    this.apiServer.start();
    await this.whenReady();
    // These two would back off for seconds if they started before the API server. They end by themselves if the API server
    // was gone and what they remember does not fit any more.
    this.controllerManager.keepRunning();
    this.scheduler.keepRunning();
  }

  /** Starts again with an empty etcd and the same certificates: every object is lost. */
  async wipe(): Promise<void> {
    for (const component of this.components.toReversed()) await component.kill();
    await rm(this.#etcdDir, { recursive: true });
    await this.#start();
  }

  get components(): readonly Component[] {
    return [this.etcd, this.apiServer, this.controllerManager, this.scheduler];
  }

  /** Resolves when the API server is ready, at the start or after a test has killed it. */
  async whenReady(): Promise<void> {
    await eventually('the API server is ready', () => this.#answersReady(), {
      explain: async () => (await Promise.all([this.etcd.tail(), this.apiServer.tail()])).join('\n'),
    });
  }

  /** /readyz is open to everybody, so this needs no credentials. */
  #answersReady(): Promise<boolean> {
    return new Promise((resolve) => {
      const options = { host: '127.0.0.1', port: this.#forwardedPort, path: '/readyz', rejectUnauthorized: false };
      request({ ...options, agent: false, signal: AbortSignal.timeout(2000) }, (response) => {
        response.resume();
        resolve(response.statusCode === 200);
      })
        .on('error', () => resolve(false))
        .end();
    });
  }
}

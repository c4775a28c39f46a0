import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cacheDir } from './cache.ts';

/** Node, and the programs of our packages. */
const ownPrograms = join(import.meta.dirname, '..', '..', 'node_modules', '.bin');

/**
 * The environment of every program that worlds, tests, benchmarks and scripts start: this, and what the caller names. Never the
 * user's, whose KUBECONFIG would make csi-provisioner serve another cluster, and whose LVM_SYSTEM_DIR or LC_ALL would change
 * what LVM does and prints.
 */
export function environment(own: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  return {
    PATH: `${ownPrograms}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`,
    HOME: join(cacheDir, 'home'),
    TMPDIR: tmpdir(),
    LANG: 'C.UTF-8',
    ...(process.env['LVM_TEST_PREFIX'] && pick(passed.world)),
    ...own,
  };
}

/** The variables of this process that others need; nothing else passes. */
const passed = {
  /** Go, apt-get and npm: where they are, their caches, and the way to the network. */
  download: [
    ...['PATH', 'HOME', 'GOPATH', 'GOCACHE', 'GOMODCACHE', 'GOPROXY', 'GOPRIVATE', 'GONOSUMDB', 'GOSUMDB', 'GONOPROXY'],
    ...['XDG_CACHE_HOME', 'npm_config_registry', 'NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR'],
    ...['http_proxy', 'https_proxy', 'no_proxy', 'HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY'],
  ],
  /** Tests that can run longer, or again as they did. */
  settings: ['MOORAGE_TEST_SEED', 'MOORAGE_TEST_STEPS', 'RACES'],
  /** Inside an LVM world, all programs: without them, LVM would change the disks of the host. */
  world: ['DM_DISABLE_UDEV', 'LVM_SYSTEM_DIR', 'LVM_TEST_DISKS', 'LVM_TEST_PREFIX'],
} as const;

/** For a program that downloads. */
export function downloadEnvironment(): NodeJS.ProcessEnv {
  return pick(passed.download);
}

export function testSettings(): Record<string, string> {
  return pick(passed.settings);
}

/** For test files: they may have to download something, and start other programs without these variables. */
export function testEnvironment(): NodeJS.ProcessEnv {
  return { ...downloadEnvironment(), ...testSettings() };
}

function pick(names: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  );
}

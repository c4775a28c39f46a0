import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { cached, keyOf } from '../host/cache.ts';
import { stage } from '../host/progress.ts';
import { DebianPackages } from '../machine/debian-packages.ts';

export interface PrometheusPrograms {
  readonly prometheus: string;
  readonly promtool: string;
}

/** Debian's package, unpacked but not installed: a machine should not get a service for the sake of a test. */
export async function ensurePrometheus(): Promise<PrometheusPrograms> {
  const dir = await cached(`prometheus-${await keyOf(['/etc/os-release'])}`, (dir) =>
    stage('Prometheus (once)', async () => {
      const [apt, tree] = [join(dir, 'apt'), join(dir, 'tree')];
      for (const each of [apt, tree]) await mkdir(each);
      const packages = await DebianPackages.ofHost(apt);
      await packages.unpack(['prometheus'], tree);
      await rm(apt, { recursive: true });
    }),
  );
  const bin = join(dir, 'tree', 'usr', 'bin');
  return { prometheus: join(bin, 'prometheus'), promtool: join(bin, 'promtool') };
}

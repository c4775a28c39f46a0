import { symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { goBuild } from '../../worlds/cluster/go-build.ts';
import { cached, keyOf } from '../../worlds/host/cache.ts';
import { stage } from '../../worlds/host/progress.ts';

const module = import.meta.dirname;
const mainPackage = 'github.com/topolvm/topolvm/cmd/hypertopolvm';
const version = '0.41.0';

/** Paths of TopoLVM's programs: one executable that acts by the name it is called by, as in its image. */
export interface Topolvm {
  readonly lvmd: string;
  readonly node: string;
  readonly controller: string;
}

/** TopoLVM itself, compiled from its Go module on first use. */
export async function ensureTopolvm(): Promise<Topolvm> {
  const key = await keyOf([join(module, 'go.mod'), join(module, 'go.sum')]);
  const dir = await cached(`topolvm-${version}-${key}`, (dir) =>
    stage(`Building TopoLVM ${version} (once)`, async (say) => {
      const variables = { 'github.com/topolvm/topolvm.Version': version };
      await goBuild({ module, package: mainPackage, output: join(dir, 'hypertopolvm'), variables }, say);
      for (const name of ['lvmd', 'topolvm-node', 'topolvm-controller']) {
        await symlink('hypertopolvm', join(dir, name));
      }
    }),
  );
  return {
    lvmd: join(dir, 'lvmd'),
    node: join(dir, 'topolvm-node'),
    controller: join(dir, 'topolvm-controller'),
  };
}

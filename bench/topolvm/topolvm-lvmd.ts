import { join } from 'node:path';
import { goBuild } from '../../test/worlds/cluster/go-build.ts';
import { cached, keyOf } from '../../test/worlds/host/cache.ts';
import { stage } from '../../test/worlds/host/progress.ts';

const module = import.meta.dirname;
const mainPackage = 'github.com/topolvm/topolvm/cmd/lvmd';

/** TopoLVM's own lvmd, compiled from its Go module unless that was done before; returns its path. */
export async function ensureTopolvmLvmd(): Promise<string> {
  const key = await keyOf([join(module, 'go.mod'), join(module, 'go.sum')]);
  const dir = await cached(`topolvm-lvmd-${key}`, (dir) =>
    stage("Building TopoLVM's lvmd (once)", (say) =>
      goBuild({ module, package: mainPackage, output: join(dir, 'lvmd'), variables: {} }, say),
    ),
  );
  return join(dir, 'lvmd');
}

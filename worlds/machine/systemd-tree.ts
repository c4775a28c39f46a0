import { mkdir, rm, symlink } from 'node:fs/promises';
import { arch } from 'node:os';
import { join } from 'node:path';
import { cached, keyOf } from '../host/cache.ts';
import { DebianPackages } from './debian-packages.ts';

/** A tree with Debian's systemd and udev, laid over the other files of a machine that boots them. Made once, without root. */
export async function ensureSystemdTree(report: (line: string) => void): Promise<string> {
  const sources = ['systemd-tree.ts', 'debian-packages.ts'].map((name) => join(import.meta.dirname, name));
  const key = await keyOf([...sources, '/etc/os-release'], [arch()]);
  const dir = await cached(`systemd-${key}`, async (draft) => {
    const tree = join(draft, 'tree');
    for (const name of ['bin', 'sbin', 'lib', 'lib64']) {
      await mkdir(join(tree, 'usr', name), { recursive: true });
      await symlink(join('usr', name), join(tree, name));
    }
    const apt = join(draft, 'apt');
    const host = await DebianPackages.ofHost(apt);
    const missing = await host.missing(['systemd', 'udev']);
    report(`unpacking ${missing.length} packages of systemd`);
    await host.unpack(missing, tree);
    await rm(apt, { recursive: true });
  });
  return join(dir, 'tree');
}

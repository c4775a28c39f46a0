import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { messageOf } from '../../base/errors.ts';
import type { Mount } from '../../base/mountinfo.ts';
import { silentLog } from '../../base/testing/silent-log.ts';
import type { PreparedUse, Publication } from '../../csi/node/node-volumes.ts';
import { luksDevicePath } from '../../engine/luks-device.ts';
import { encryptedTag } from '../../engine/names-and-tags.ts';
import type { Volume } from '../../engine/pool.ts';
import { Pools } from '../../engine/pools.ts';
import { InMemoryPool } from '../../engine/testing/in-memory-pool.ts';
import { ext4 } from '../../filesystem/ext4.ts';
import type { Filesystem } from '../../filesystem/filesystem.ts';
import type { BindRequest } from '../../filesystem/mounts.ts';
import type { Probe } from '../../filesystem/probe.ts';
import { type EncryptedVolumes, KeyMissing } from '../encrypted-volumes.ts';
import { EphemeralVolumes } from '../ephemeral-volumes.ts';
import type { PreparedFilesystems } from '../prepared-filesystems.ts';
import { PublishedVolumes } from '../published-volumes.ts';

const settings = { mkfsOptions: [], rootMode: 0o2777, rootOwner: { uid: 0, gid: 0 } };
export const onExt4: PreparedUse = { kind: 'filesystem', filesystem: ext4, mountFlags: ['noatime'], settings };

/** A mount table in memory, and commands that only record that they ran. */
class RememberedMounts {
  readonly table = new Map<string, Mount>();
  readonly steps: string[] = [];

  mountAt: PreparedFilesystems['mountAt'] = async (path, _, { devicePath }, use) => {
    this.steps.push(`mount ${path}`);
    this.#put(path, devicePath, use.filesystem.name, use.mountFlags);
  };

  async isAt(path: string, { devicePath }: Volume): Promise<boolean> {
    return (await this.holding(path, devicePath)) !== undefined;
  }

  async bind({ source, target, readOnly }: BindRequest): Promise<void> {
    this.steps.push(`bind ${source} at ${target}${readOnly ? ' to read' : ''}`);
    this.#put(target, this.table.get(source)?.source ?? source, ext4.name, readOnly ? ['ro'] : []);
  }

  async at(target: string): Promise<Mount | undefined> {
    return this.table.get(target);
  }

  async holding(target: string, device: string): Promise<Mount | undefined> {
    const mount = this.table.get(target);
    return mount?.source === device ? mount : undefined;
  }

  async targetsOf(device: string): Promise<readonly string[]> {
    return [...this.table.values()].filter(({ source }) => source === device).map(({ target }) => target);
  }

  async protect(target: string): Promise<void> {
    this.steps.push(`protect ${target}`);
  }

  async unmount(target: string): Promise<void> {
    this.steps.push(`unmount ${target}`);
    this.table.delete(target);
  }

  async grow({ id }: Volume, { name }: Filesystem, mountedAt: string): Promise<void> {
    this.steps.push(`grow ${name} of ${id} at ${mountedAt}`);
  }

  #put(target: string, source: string, filesystem: string, options: readonly string[]): void {
    this.table.set(target, { target, root: '/', device: '0:0', filesystem, source, options });
  }
}

/** Encryption that only records what was done. */
class RememberedEncryption {
  readonly #steps: string[];
  #isOpen = false;

  constructor(steps: string[]) {
    this.#steps = steps;
  }

  open: EncryptedVolumes['open'] = async (pool, id, keys, signal) => {
    if (!keys && !this.#isOpen) throw new KeyMissing(id);
    if (!this.#isOpen) this.#steps.push(`open ${id} with ${keys ? Buffer.from(keys.current).toString() : 'nothing'}`);
    this.#isOpen = true;
    return decrypted(await pool.addTags(id, [encryptedTag], signal));
  };

  grow: EncryptedVolumes['grow'] = async (volume, keys) => {
    this.#steps.push(`grow ${volume.id} with ${keys ? Buffer.from(keys.current).toString() : 'nothing'}`);
    return decrypted(volume);
  };

  async close(id: string): Promise<void> {
    if (this.#isOpen) this.#steps.push(`close ${id}`);
    this.#isOpen = false;
  }

  async mustBePlain(): Promise<void> {}
}

function decrypted(volume: Volume): Volume {
  return { ...volume, devicePath: luksDevicePath(volume.id) };
}

/** A node with one volume and the parts that publish volumes. */
export async function node(t: TestContext, pool = new InMemoryPool('ssd', 8n * 1024n ** 3n)) {
  const directory = await mkdtemp(join(tmpdir(), 'moorage-node-'));
  t.after(() => rm(directory, { recursive: true }));
  await pool.create({ id: 'v', sizeBytes: 4096n, tags: [] });
  const pools = new Pools([pool], 'ssd');
  const mounts = new RememberedMounts();
  const ephemeral = new EphemeralVolumes({ pools, log: silentLog });
  const encrypted = new RememberedEncryption(mounts.steps);
  const [stagingPath, targetPath] = [join(directory, 'staged'), join(directory, 'pod', 'mount')];
  const publication: Publication = {
    volumeId: 'v',
    targetPath,
    stagingPath,
    readOnly: false,
    exclusive: false,
    use: onExt4,
    ephemeral: undefined,
  };
  const reported: string[] = [];
  const onPublished = (id: string) => reported.push(id);
  const prepared: string[] = [];
  const onPrepared = (id: string, error?: unknown) =>
    prepared.push(error === undefined ? id : `${id}: ${messageOf(error)}`);
  const content: { found: Probe } = { found: { kind: 'empty' } };
  const givenBack: string[] = [];
  const onGivenBack = (id: string) => givenBack.push(id);
  const volumes = new PublishedVolumes({
    pools,
    filesystems: mounts,
    grower: mounts,
    mounts,
    ephemeral,
    encrypted,
    probe: async () => content.found,
    onPublished,
    onPrepared,
    onGivenBack,
    hold: async () => new AsyncDisposableStack(),
  });
  return {
    volumes,
    publication,
    directory,
    stagingPath,
    targetPath,
    mounts,
    encrypted,
    pools,
    pool,
    content,
    reported,
    prepared,
    givenBack,
  };
}

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { mountUnitName } from '../../../src/node/local-pv/systemd-units.ts';
import { eventually } from '../../../worlds/host/eventually.ts';
import { type LvmWorld, lvmWorld } from '../../../worlds/lvm/lvm-world.ts';
import { quote } from '../../../worlds/machine/quote.ts';
import type { Step } from './systemd/agent.ts';

const units = '/etc/systemd/system';
const nasty = `/mnt/pv/it's "50 %n" of $HOME\\x é;#-+:_.`;

const volume = (name: string, target = `/mnt/pv/${name}`) => ({
  ...{ source: `/dev/vg/${name}`, target, filesystem: 'ext4', options: ['noexec'] },
});

test('volumes that systemd mounts', async (t) => {
  const world = await machine(t);
  const good = [volume('my-data'), volume('thin'), volume('nasty', nasty)];
  const bad = [volume('missing'), volume('broken')];

  await t.test('are mounted after a power loss, before the kubelet starts and without an agent', async () => {
    assert.deepEqual(await agent(world, ...bad.map((ensure) => ({ ensure }))), ['', '']);
    await world.sh(`
      systemctl stop mnt-pv-missing.mount mnt-pv-broken.mount
      lvremove -qy vg/missing
      dd if=/dev/zero of=/dev/vg/broken bs=1M count=4 conv=fsync 2>/dev/null
      mkdir -p /mnt/pv/missing /mnt/pv/broken # as a power loss leaves them
      sync`);
    assert.deepEqual(await agent(world, ...good.map((ensure) => ({ ensure }))), ['', '', '']);
    for (const { source, target } of good) {
      assert.match(await world.sh(`findmnt -no OPTIONS ${quote(target)}`), /noexec/);
      await world.sh(`echo ${source} >${quote(target)}/name; sync -f ${quote(target)}`); // nothing of the root filesystem
    }

    assert.match(await staticAgent(world, 'static'), /"Processed"/);
    assert.equal(await world.sh('readlink /mnt/pv/static'), '/run/moorage/local-pv/static');
    await world.sh('echo data >/mnt/pv/static/file; sync -f /mnt/pv/static/file');

    await world.powerLoss();
    await world.boot();

    const mounted = [...good.map(({ target }) => target), '/mnt/pv/static'];
    const seen = (await world.sh('cat /var/kubelet-saw')).split('\n');
    assert.deepEqual(
      seen.sort(),
      mounted.sort(),
      'nothing else: a pod cannot use the directory of a volume that is missing',
    );
    assert.equal(await world.sh(`cat ${quote(nasty)}/name /mnt/pv/thin/name`), '/dev/vg/nasty\n/dev/vg/thin');
    assert.equal(await world.sh('systemctl is-active kubelet.service multi-user.target'), 'active\nactive');
  });

  await t.test('of static PersistentVolumes are found mounted by the next agent, and removed', async () => {
    assert.equal(await world.sh('cat /mnt/pv/static/file'), 'data');
    assert.match(await staticAgent(world, 'static', 'remove'), /"Processed".*\n.*"moorage.dev\/removed":"true"/);
    const left = `ls -d /mnt/pv/static /run/moorage/local-pv/* /dev/vg/static ${units}/*local*pv* 2>/dev/null || true`;
    assert.equal(await world.sh(left), '');
  });

  await t.test('report why they cannot be mounted, and then have no directory', async () => {
    const steps = [{ ensure: volume('broken') }, { ensure: volume('missing') }];
    const [broken = '', missing = ''] = await agent(world, ...steps);
    assert.match(
      broken,
      /^MountUnitFailed: cannot mount \/dev\/vg\/broken at \/mnt\/pv\/broken: mount: .*wrong fs type/,
    );
    assert.match(missing, /^MountUnitFailed: .* at \/mnt\/pv\/missing: its device did not appear;/);
    await world.sh('until [ ! -e /mnt/pv/missing ] && [ ! -e /mnt/pv/broken ]; do sleep 0.01; done');
  });

  await t.test('have no directory after an unmount by hand either', async () => {
    await world.sh('umount /mnt/pv/my-data; until [ ! -e /mnt/pv/my-data ]; do sleep 0.01; done');
  });

  await t.test('are not unmounted while in use', async () => {
    await world.sh('cd /mnt/pv/thin; sleep 1000 >/dev/null 2>&1 & echo $! >/run/user');
    const [busy = ''] = await agent(world, { remove: '/mnt/pv/thin' });
    assert.match(busy, /^MountUnitBusy: cannot unmount \/mnt\/pv\/thin: umount: \/mnt\/pv\/thin: target is busy; /);
    assert.equal(
      await world.sh('systemctl is-enabled mnt-pv-thin.mount; cat /mnt/pv/thin/name'),
      'enabled\n/dev/vg/thin',
    );
    await world.sh('kill $(cat /run/user)');
  });

  await t.test('are removed with every trace', async () => {
    const removals = [...good, ...bad, ...bad].map(({ target }) => ({ remove: target })); // again: nothing to do
    assert.deepEqual(
      await agent(world, ...removals),
      removals.map(() => ''),
    );
    await nothingIsLeft(world);
    assert.equal(await world.sh('systemctl is-system-running'), 'running', 'and no failed unit is left');
  });

  await t.test('are complete after crashes and a retry', async () => {
    const [ensure, target] = [volume('thin'), '/mnt/pv/thin'];
    const creation = [0, 1, 2].map((crashAt) => ({ ensure, crashAt })); // each gets one command further than the last
    const removal = [0, 1, 2, 3, 3].map((crashAt) => ({ remove: target, crashAt }));

    assert.deepEqual(await agent(world, ...creation, { ensure }), [...creation.map(() => 'crash'), '']);
    assert.equal(
      await world.sh('systemctl is-enabled mnt-pv-thin.mount; cat /mnt/pv/thin/name'),
      'enabled\n/dev/vg/thin',
    );

    assert.deepEqual(await agent(world, ...removal, { remove: target }), [...removal.map(() => 'crash'), '']);
    await nothingIsLeft(world);
  });

  await t.test('are taken over from k8s-local-pv, if the device is the same', async () => {
    await world.sh(`
      ${unitOfOriginal('thin', '/dev/mapper/vg-thin')}
      ${unitOfOriginal('broken', '/dev/vg/nasty')}
      ${unitOfOriginal('other', '/dev/vg/nasty', '/run/systemd/system')}
      systemctl daemon-reload
      systemctl enable -q mnt-pv-thin.mount mnt-pv-broken.mount
      systemctl start mnt-pv-thin.mount
      mkdir -p /mnt/pv/my-data
      echo written while nothing was mounted >/mnt/pv/my-data/file`);
    const unit = await world.sh(`cat ${units}/mnt-pv-broken.mount`);

    const foreign = ['broken', 'other'].flatMap((name) => [{ ensure: volume(name) }, { remove: `/mnt/pv/${name}` }]);
    const [taken, hiding = '', ...refused] = await agent(
      world,
      { ensure: volume('thin') },
      { ensure: volume('my-data') },
      ...foreign,
    );
    assert.equal(taken, '');
    assert.equal(await world.sh('cat /mnt/pv/thin/name'), '/dev/vg/thin');
    assert.match(await world.sh('systemctl show -P OnFailure mnt-pv-thin.mount'), /moorage/, 'it is our unit, loaded');
    assert.match(hiding, /^NotEmpty: \/mnt\/pv\/my-data is no longer a mount point but contains data/);
    const files = [`${units}/mnt-pv-broken.mount`, '/run/systemd/system/mnt-pv-other.mount'];
    assert.deepEqual(
      refused.map((error) => /^ForeignUnit: (\S+) mounts \/dev\/vg\/nasty .* was not written by/.exec(error)?.[1]),
      files.flatMap((file) => [file, file]),
    );
    assert.equal(await world.sh(`cat ${units}/mnt-pv-broken.mount`), unit);
  });

  await t.test('have units with the names that systemd gives them', async () => {
    const paths = [nasty, '/mnt/pv/a', '/.x/.y', '/mnt/pv/data-db-0.example.com', '/-/--', '/Ä/ß', '/a\tb'];
    const printed = await world.sh(`systemd-escape --path --suffix=mount -- ${paths.map(quote).join(' ')}`);
    assert.deepEqual(paths.map(mountUnitName).join(' '), printed);
  });
});

/** An agent that starts, processes one static volume and ends. */
function staticAgent(world: LvmWorld, ...words: readonly string[]): Promise<string> {
  const program = join(import.meta.dirname, 'systemd', 'static-agent.ts');
  return world.sh([process.execPath, program, ...words].map(quote).join(' '));
}

/** With five volumes, and a service in place of the kubelet that records which directories it sees, and which are mounted. */
async function machine(t: TestContext): Promise<LvmWorld> {
  const world = await lvmWorld(t, { systemd: true });
  await world.sh(`
    vgcreate -qy vg ${world.disks[0]}
    for name in my-data nasty missing broken; do lvcreate -qy --size 16m --name $name vg; done
    lvcreate -qy --type thin-pool --size 32m --name pool vg
    lvcreate -qy --virtualsize 16m --thinpool pool --name thin vg
    for name in my-data nasty missing broken thin; do mkfs.ext4 -q /dev/vg/$name; done
    cat >/usr/local/bin/kubelet <<'SCRIPT'
#!/bin/sh
for path in /mnt/pv/*; do
  mountpoint -q "$path" && echo "$path" || echo "not mounted: $path"
done >/var/kubelet-saw
SCRIPT
    chmod +x /usr/local/bin/kubelet
    cat >${units}/kubelet.service <<UNIT
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/bin/kubelet
[Install]
WantedBy=multi-user.target
UNIT
    mkdir ${units}/dev-vg-missing.device.d
    cat >${units}/dev-vg-missing.device.d/timeout.conf <<UNIT
[Unit]
JobRunningTimeoutSec=2s
UNIT
    systemctl enable -q kubelet.service
    sync`);
  return world;
}

function unitOfOriginal(name: string, device: string, directory = units): string {
  return `cat >${directory}/mnt-pv-${name}.mount <<UNIT
[Unit]
Description=${name}
Conflicts=umount.target
[Mount]
What=${device}
Where=/mnt/pv/${name}
Type=ext4
Options=noexec
[Install]
WantedBy=multi-user.target
UNIT`;
}

/** systemd forgets a unit a moment after its last use. */
async function nothingIsLeft({ sh }: LvmWorld): Promise<void> {
  const leftovers = () =>
    sh(`ls /mnt/pv; find ${units} -name '*mnt*'; systemctl list-units --all --no-legend 'mnt-pv-*'`);
  await eventually('nothing is left', async () => (await leftovers()) === '', { explain: leftovers });
}

/** Runs the agent as in a container: it sees the node's devices and processes, but neither its systemd nor its directories. */
async function agent(world: LvmWorld, ...steps: readonly Step[]): Promise<string[]> {
  const program = join(import.meta.dirname, 'systemd', 'agent.ts');
  const hide = ['/run', '/mnt', '/etc/systemd'].map((path) => `mount -t tmpfs tmpfs ${path}`).join(' && ');
  const command = [process.execPath, program, JSON.stringify(steps)].map(quote).join(' ');
  const printed = await world.sh(`unshare --mount sh -c ${quote(`${hide} && exec ${command}`)}`);
  return printed.split('\n').map((line) => JSON.parse(line) as string);
}

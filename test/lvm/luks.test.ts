import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile, rm } from 'node:fs/promises';
import { type TestContext, test } from 'node:test';
import { type Run, run } from '../../src/base/exec.ts';
import { luksDevicePath } from '../../src/engine/luks-device.ts';
import { encryptedTag } from '../../src/engine/names-and-tags.ts';
import type { Pool } from '../../src/engine/pool.ts';
import { Luks } from '../../src/filesystem/luks.ts';
import { blkid } from '../../src/filesystem/probe.ts';
import { command } from '../../worlds/lvm/inside.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { cheapDerivation } from './cheap-encryption.ts';
import { engineOfTest } from './engine-of-test.ts';

const signal = new AbortController().signal;
const mebibyte = 1024n ** 2n;
const probe = blkid(run);
/** Any bytes: newlines and zeros must not end it. */
const [key, otherKey] = [Buffer.from('\n\0key of the test\n'), randomBytes(32)];
const luks = new Luks({ run, probe, derivation: cheapDerivation });

const checksum = async (device: string) => (await command('sh', '-c', `head -c 20M ${device} | md5sum`)).split(' ')[0];

test('LUKS2 works on volumes', async (t) => {
  const { engine } = await engineOfTest(t);
  let created = 0;
  const close = async (pool: Pool, id: string) => {
    const volume = pool.get(id);
    if (volume) await luks.close(volume, signal);
  };
  /** Closed and removed after the test. */
  const newVolume = async (t: TestContext, kind: string) => {
    const pool = engine.pools.get(kind);
    const id = `${kind}-${++created}`;
    const { devicePath } = await pool.create({ id, sizeBytes: 32n * mebibyte, tags: [] }, signal);
    undoAfter(t, async () => {
      await close(pool, id);
      await pool.remove(id, signal);
    });
    return { pool, id, devicePath };
  };

  await t.test('a volume is encrypted once, opened, grown, re-keyed, and closed', async (t) => {
    const { pool, id } = await newVolume(t, 'thick');
    const volume = await luks.format(pool, id, key, signal);
    assert.ok(volume.tags.includes(encryptedTag));

    const device = await luks.open(volume, key, signal);
    assert.equal(device, luksDevicePath(id));
    await command('sh', '-c', `printf plaintext | dd of=${device} conv=fsync status=none`);
    assert.equal(await luks.open(volume, key, signal), device); // repeated
    await luks.format(pool, id, otherKey, signal); // repeated, with any key: nothing changes
    assert.equal(await command('head', '-c', '9', device), 'plaintext');
    const found = await command('sh', '-c', `grep --null-data --count --text plaintext ${volume.devicePath} || true`);
    assert.equal(found, '0', 'nothing readable is on the disk');

    const before = BigInt(await command('blockdev', '--getsize64', device));
    const grown = await pool.grow(id, 64n * mebibyte, signal);
    await assert.rejects(luks.resize(grown, undefined, signal), { name: 'KeyNeededToGrow' }); // the kernel does not return it
    await luks.resize(grown, key, signal);
    await luks.resize(grown, undefined, signal); // repeated: there is nothing to do
    assert.equal(BigInt(await command('blockdev', '--getsize64', device)) - before, 32n * mebibyte);

    await luks.changeKey(grown, key, otherKey, signal);
    await luks.changeKey(grown, key, otherKey, signal); // repeated
    await luks.close(grown, signal);
    await luks.close(grown, signal);
    assert.equal(await luks.isOpen(grown), false);
    await assert.rejects(luks.open(grown, key, signal), { name: 'WrongKey', code: 'PermissionDenied' });
    await luks.open(grown, otherKey, signal);
    assert.equal(await command('head', '-c', '9', device), 'plaintext');
    await pool.remove(id, signal); // it is open, but nobody uses it
    assert.equal(existsSync(device), false);
  });

  await t.test('a wrong key opens nothing and changes nothing', async (t) => {
    const { pool, id } = await newVolume(t, 'thick');
    const volume = await luks.format(pool, id, key, signal);
    await luks.close(volume, signal);
    const before = await checksum(volume.devicePath);
    await assert.rejects(luks.open(volume, otherKey, signal), { name: 'WrongKey' });
    await assert.rejects(luks.changeKey(volume, otherKey, Buffer.from('new'), signal), { name: 'WrongKey' });
    assert.equal(existsSync(luksDevicePath(id)), false);
    assert.equal(await checksum(volume.devicePath), before);
  });

  await t.test('a volume that holds data, or once did, is not encrypted', async (t) => {
    const { pool, id, devicePath } = await newVolume(t, 'thick');
    for (const [content, refusal] of [
      [`mkfs.ext4 -q ${devicePath}`, 'FilesystemMismatch'],
      [`wipefs -aq ${devicePath}; printf precious | dd of=${devicePath} conv=fsync status=none`, 'DeviceUnreadable'],
      [
        `echo x | cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 ${devicePath} -`,
        'FilesystemForeign',
      ],
    ] as const) {
      await command('sh', '-ec', content);
      const before = await checksum(devicePath);
      await assert.rejects(luks.format(pool, id, key, signal), { name: refusal });
      assert.equal(await checksum(devicePath), before);
    }
    const lost = await newVolume(t, 'thick');
    await pool.addTags(lost.id, [encryptedTag], signal);
    await assert.rejects(luks.format(pool, lost.id, key, signal), { name: 'FilesystemVanished' });
  });

  await t.test('an encryption interrupted by a crash at any step is completed on retry', async (t) => {
    for (const [last, isWrittenAgain] of [
      ['blkdiscard', true],
      ['config', false],
    ] as const) {
      const { pool, id } = await newVolume(t, 'thick');
      const dying: Run = async (argv, options) => {
        const output = await run(argv, options);
        if (argv.slice(0, 2).includes(last)) throw new Error('power loss');
        return output;
      };
      await assert.rejects(
        new Luks({ run: dying, probe, derivation: cheapDerivation }).format(pool, id, key, signal),
        /power loss/,
      );
      const ran: string[] = [];
      const counted: Run = (argv, options) => {
        ran.push(argv[1] ?? '');
        return run(argv, options);
      };
      const volume = await new Luks({ run: counted, probe, derivation: cheapDerivation }).format(pool, id, key, signal);
      assert.equal(ran.includes('luksFormat'), isWrittenAgain, last);
      assert.ok(volume.tags.includes(encryptedTag));
      const device = await luks.open(volume, key, signal);
      assert.deepEqual(await probe(device, signal), { kind: 'empty' });
    }
  });

  await t.test('a key change interrupted by a crash is completed on retry', async (t) => {
    const { pool, id, devicePath } = await newVolume(t, 'thick');
    const volume = await luks.format(pool, id, key, signal);
    await luks.close(volume, signal);
    await command(
      'sh',
      '-c',
      `printf new >/tmp/new-key; printf '\\n\\0key of the test\\n' | cryptsetup luksAddKey -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file=- ${devicePath} /tmp/new-key`,
    );
    await rm('/tmp/new-key');
    await luks.changeKey(volume, key, Buffer.from('new'), signal); // both keys open it now: the old one is removed
    await assert.rejects(luks.open(volume, key, signal), { name: 'WrongKey' });
  });

  await t.test('no process or error reveals the key', async (t) => {
    const { pool, id } = await newVolume(t, 'thin');
    const seen: string[] = [];
    /** Inspects all processes of the machine while the command runs. */
    const watched: Run = async (argv, options) => {
      const outcome = Promise.allSettled([run(argv, options)]);
      const ended = new AbortController();
      void outcome.then(() => ended.abort());
      while (!ended.signal.aborted) {
        const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
        seen.push(...(await Promise.all(pids.map(visibleOf))));
      }
      const [settled] = await outcome;
      if (settled.status === 'rejected') throw settled.reason;
      return settled.value;
    };
    const luks = new Luks({ run: watched, probe, derivation: cheapDerivation });
    const [secret, next] = ['correct-horse-battery', 'staple-of-the-test'].map((text) => Buffer.from(text));
    assert.ok(secret && next);
    const volume = await luks.format(pool, id, secret, signal);
    await luks.open(volume, secret, signal);
    await luks.changeKey(volume, secret, next, signal);
    const refused = await luks
      .changeKey(volume, Buffer.from('neither-of-them'), secret, signal)
      .catch((error) => error);
    assert.ok(refused instanceof Error);
    const errorText = JSON.stringify([refused.message, refused.stack, refused.cause]);
    assert.ok(
      seen.some((text) => text.includes('luksChangeKey')),
      'it checked while cryptsetup ran',
    );
    for (const word of ['correct-horse', 'staple-of', 'neither-of']) {
      assert.ok(!seen.some((text) => text.includes(word)) && !errorText.includes(word));
    }
  });

  await t.test('a volume of the same name in another class neither opens nor closes it', async (t) => {
    const { pool, id } = await newVolume(t, 'thick');
    const volume = await luks.format(pool, id, key, signal);
    await luks.open(volume, key, signal);
    const files = engine.pools.get('file');
    const other = await files.create({ id, sizeBytes: 32n * mebibyte, tags: [] }, signal);
    undoAfter(t, () => files.remove(id, signal));
    await assert.rejects(luks.close(other, signal), { name: 'MappingForeign' });
    await assert.rejects(luks.open(other, key, signal), { name: 'MappingForeign' });
    assert.equal(await luks.isOpen(volume), true);
  });
});

/** What any user of the machine can see of a process; empty if it is gone. */
async function visibleOf(pid: string): Promise<string> {
  const texts = await Promise.allSettled(
    ['cmdline', 'environ'].map((file) => readFile(`/proc/${pid}/${file}`, 'utf8')),
  );
  return texts.map((text) => (text.status === 'fulfilled' ? text.value : '')).join('\n');
}

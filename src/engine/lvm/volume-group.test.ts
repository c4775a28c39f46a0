import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SimulatedLvm } from './testing/simulated-lvm.ts';
import { signal, simulatedGroup } from './testing/simulated-pools.ts';

async function open(simulated: SimulatedLvm, onDisk: () => number | undefined) {
  simulated.numberOnDisks = onDisk;
  const group = simulatedGroup(simulated, { isWatched: true });
  await group.refresh(signal);
  const asked = async () => {
    simulated.commands.length = 0;
    group.touch(); // as LVM's lock file triggers with each query
    await group.lookAgain(signal);
    return simulated.commands.length;
  };
  return { group, asked };
}

test('disks that disagree with LVM do not cause repeated queries', async () => {
  const simulated = new SimulatedLvm(100);
  let onDisk: number | undefined = 900;
  const { group, asked } = await open(simulated, () => onDisk ?? simulated.sequenceNumber);
  assert.deepEqual([await asked(), await asked(), await asked()], [1, 0, 0]);

  onDisk = undefined; // the disks agree with LVM again
  simulated.addForeign('theirs', 1);
  assert.deepEqual([await asked(), await asked()], [1, 0]);
  assert.ok(group.memory.get('theirs'));

  // A number on the disks that LVM once confirmed is a reason to query again.
  onDisk = simulated.sequenceNumber;
  await group.change(signal, () =>
    group.execute(['lvchange', '--activate', 'y'], { steps: 1, apply: () => undefined }),
  );
  assert.equal(await asked(), 1);
});

test('LVM is queried before each change if the disks are unreadable or disagree with it', async () => {
  for (const onDisk of [undefined, 900]) {
    const simulated = new SimulatedLvm(100);
    const { group, asked } = await open(simulated, () => onDisk);
    assert.deepEqual([await asked(), await asked(), await asked()], [1, 0, 0], 'but not each time LVM ran');
    for (const name of ['one', 'two']) {
      simulated.commands.length = 0;
      simulated.addForeign(name, 1);
      group.touch();
      await group.change(signal, async () => assert.ok(group.memory.get(name)));
      assert.deepEqual(simulated.commands, ['fullreport']);
    }
  }
});

test('callers that wait while LVM times out get its error, and do not query one after the other', async () => {
  const simulated = new SimulatedLvm(100);
  const { group } = await open(simulated, () => undefined);
  group.touch();
  simulated.fails = () => 'before';
  simulated.commands.length = 0;
  const change = () => group.change(signal, async () => undefined);
  const outcomes = await Promise.allSettled([change(), change(), change()]);
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['rejected', 'rejected', 'rejected'],
  );
  assert.deepEqual(simulated.commands, ['fullreport']);
  await assert.rejects(change());
  assert.deepEqual(simulated.commands, ['fullreport', 'fullreport'], 'a later caller queries again');
});

test('activation by others, which the disks do not show, is queried once', async () => {
  const simulated = new SimulatedLvm(100);
  simulated.addForeign('theirs', 1);
  const { group, asked } = await open(simulated, () => simulated.sequenceNumber);
  assert.equal(await asked(), 0);

  simulated.inactive.add('theirs');
  assert.deepEqual([await asked(), await asked()], [1, 0]);
  assert.equal(group.memory.get('theirs')?.active, false);

  simulated.inactive.clear();
  assert.deepEqual([await asked(), await asked()], [1, 0]);
  assert.equal(group.memory.get('theirs')?.active, true);
});

test('activation by others right after deactivation is detected', async () => {
  const simulated = new SimulatedLvm(100);
  simulated.addForeign('theirs', 1);
  const { group, asked } = await open(simulated, () => simulated.sequenceNumber);
  simulated.inactive.add('theirs');
  assert.equal(await asked(), 1);
  simulated.inactive.clear();
  assert.equal(await asked(), 1);
  assert.equal(group.memory.get('theirs')?.active, true);
});

test('a device that LVM does not know does not cause repeated queries', async () => {
  const simulated = new SimulatedLvm(100);
  simulated.addForeign('theirs', 1);
  simulated.deviceNames = async () => [];
  const { asked } = await open(simulated, () => simulated.sequenceNumber);
  assert.deepEqual([await asked(), await asked(), await asked()], [1, 0, 0]);
});

test('an unchanged volume is the same object after another query', async () => {
  const simulated = new SimulatedLvm(100);
  simulated.addForeign('kept', 1);
  simulated.addForeign('changed', 1);
  const { group } = await open(simulated, () => simulated.sequenceNumber);
  const [kept, changed] = group.memory.volumes();
  simulated.volumes.get('changed')?.tags.push('theirs');
  await group.refresh(signal);
  assert.equal(group.memory.get('kept'), kept);
  assert.notEqual(group.memory.get('changed'), changed);
  assert.deepEqual(group.memory.get('changed')?.tags, ['theirs']);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLog } from '../../base/log.ts';
import { ManualClock } from '../../base/manual-clock.ts';
import { Lvm } from './lvm.ts';
import { newLvmFigures } from './lvm-figures.ts';
import { SimulatedLvm } from './simulated-lvm.ts';
import { VolumeGroup } from './volume-group.ts';

const signal = new AbortController().signal;

test('disks that say something else than LVM does are no reason to ask it again and again', async () => {
  const simulated = new SimulatedLvm(100);
  let onDisk: number | undefined = 900;
  const its = { clock: new ManualClock(), log: silentLog };
  const lvm = new Lvm({ command: ['lvm'], run: simulated.run, env: {}, figures: newLvmFigures(), ...its });
  const sequenceNumberOf = async () => onDisk ?? simulated.sequenceNumber;
  const group = new VolumeGroup({ name: 'vg', lvm, sequenceNumberOf, isWatched: () => true, ...its });
  await group.refresh(signal);
  const asked = async () => {
    simulated.commands.length = 0;
    group.touch(); // as LVM's own lock makes us do, each time it is asked
    await group.lookAgain(signal);
    return simulated.commands.length;
  };
  assert.deepEqual([await asked(), await asked(), await asked()], [1, 0, 0]);
  assert.equal(group.isSure, false);

  onDisk = undefined; // it tells the truth again
  simulated.addForeign('theirs', 1);
  assert.deepEqual([await asked(), await asked()], [1, 0]);
  assert.ok(group.isSure && group.get('theirs'));

  // What the disks said last is no less a reason when LVM agreed with it then.
  onDisk = simulated.sequenceNumber;
  await group.change(signal, () =>
    group.execute(['lvchange', '--activate', 'y'], { steps: 1, apply: () => undefined }),
  );
  assert.equal(await asked(), 1);
});

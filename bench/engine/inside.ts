/**
 * node bench/engine/inside.ts DIR BUDGET_SECONDS MOORAGE TOPOLVM_LVMD
 *
 * Measures all sides in this machine, on the disks of the LVM world. Progress goes to standard error, one line per step;
 * the results are one JSON object on standard output.
 */
import { dirname } from 'node:path';
import { disks } from '../../worlds/lvm/inside.ts';
import { BareLvm, lvm, lvmScript } from './bare-lvm.ts';
import { Lvmd } from './lvmd.ts';
import { measurementsOf, ratiosOf } from './measurements.ts';
import { measureMemory } from './memory.ts';
import { type Sample, type Turn, takeBurst, takeTurn } from './rounds.ts';
import { crowdedGroup, type Place, placeName, type Side, sideNames, thinPool } from './side.ts';
import { warmUp, warmUpClient } from './warm-up.ts';

const [dir = '', budgetSeconds = '', moorageProgram = '', topolvmLvmd = ''] = process.argv.slice(2);
const endBy = performance.now() + Number(budgetSeconds) * 1000;
const say = (line: string) => process.stderr.write(`${line}\n`);

const thick: Place = { kind: 'thick', others: 0 };
const thin: Place = { kind: 'thin', others: 0 };
const thickAmongMany: Place = { kind: 'thick', others: 200 };
const thinAmongMany: Place = { kind: 'thin', others: 200 };
/** As the package starts it, with its own Node. */
const path = `PATH=${dirname(process.execPath)}:${process.env['PATH']}`;
const moorageCommand = ['env', path, moorageProgram, 'lvmd'];
const burstClients = 8;

say('creating volume groups');
for (const [index, name] of [...sideNames, crowdedGroup].entries()) {
  await lvm('vgcreate', '--yes', name, disks()[index] ?? '');
  await lvm('lvcreate', '--yes', '--type', 'thin-pool', '--size', '1g', '--name', thinPool, name);
}
say('starting both daemons');
const topolvm = await Lvmd.start('topolvm', [topolvmLvmd, '--metrics-bind-address', '0'], dir);
const moorage = await Lvmd.start('moorage', moorageCommand, dir);
const sides: readonly Side[] = [new BareLvm(), topolvm, moorage];
for (const side of sides) await side.pause();
warmUpClient();

const samples: Sample[] = [];
await rounds(thick, 4, { volumes: 4, grown: 4 });
await rounds(thin, 4, { volumes: 4, grown: 4 });
await bursts(thick, 2);
await bursts(thin, 1);

await fill(Array.from({ length: 200 }, (_, i) => `lvcreate -y -W n -Z n -n other-${i} -L 4m ${crowdedGroup}`));
await rounds(thickAmongMany, 4, { volumes: 4, grown: 4 });
await lvm('lvremove', '--yes', '--select', 'lv_name=~^other-', crowdedGroup);
await fill(Array.from({ length: 200 }, (_, i) => `lvcreate -y -T ${crowdedGroup}/${thinPool} -n other-${i} -V 4m`));
await rounds(thinAmongMany, 3, { volumes: 4, grown: 1 }); // LVM itself takes seconds to grow one of this many
await lvm('lvremove', '--yes', '--select', 'lv_name=~^other-', crowdedGroup);

await topolvm.stop();
await moorage.stop();
const fresh = await Lvmd.start('moorage', moorageCommand, dir);
const memory = await measureMemory(fresh, thick, say);
await fresh.stop();

const measurements = measurementsOf(samples);
console.log(JSON.stringify({ ratios: ratiosOf(measurements), figures: measurements, memory }));

/** Turns of all sides; when time runs out, all but the first are skipped. */
async function rounds(place: Place, turns: number, turn: Turn): Promise<void> {
  for (const side of sides) await warmUp(side, place);
  for (let i = 0; i < turns && (i === 0 || performance.now() < endBy); i++) {
    for (const side of rotated(sides, i)) {
      say(`${placeName(place)}: turn ${i + 1} of ${turns}, ${side.name}`);
      samples.push(...(await takeTurn(side, place, turn)));
    }
  }
}

async function bursts(place: Place, turns: number): Promise<void> {
  for (let i = 0; i < turns && (i === 0 || performance.now() < endBy); i++) {
    for (const lvmd of rotated([topolvm, moorage], i)) {
      say(`${placeName(place)}: 50 volumes by ${burstClients} clients, turn ${i + 1} of ${turns}, ${lvmd.name}`);
      const others = Array.from({ length: burstClients - 1 }, () => lvmd.another());
      samples.push(...(await takeBurst([lvmd, ...others], place)));
      for (const other of others) other.close();
    }
  }
}

async function fill(script: readonly string[]): Promise<void> {
  say(`creating ${script.length} other volumes`);
  await lvmScript(script);
  const created = await lvm(
    'lvs',
    '--noheadings',
    '--options',
    'lv_name',
    '--select',
    'lv_name=~^other-',
    crowdedGroup,
  );
  if (created.split('\n').length !== script.length)
    throw new Error(`cannot create all of the other volumes: ${created}`);
}

/** Each turn starts with another side, so that none always follows the same one. */
function rotated<T>(list: readonly T[], by: number): T[] {
  return list.map((_, index) => list[(index + by) % list.length] as T);
}

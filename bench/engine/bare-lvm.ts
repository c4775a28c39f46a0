import { run } from '../../src/base/exec.ts';
import { grownBytes, type Place, type Side, thinPool, volumeBytes, volumeGroupOf } from './side.ts';

const timeoutMs = 120_000;

/** LVM's own commands, one process each: the baseline. */
export class BareLvm implements Side {
  readonly name = 'exec';

  create(place: Place, id: string): Promise<unknown> {
    const group = volumeGroupOf(this.name, place);
    const size =
      place.kind === 'thin'
        ? ['--thin', '--virtualsize', `${volumeBytes}b`, `${group}/${thinPool}`]
        : ['--size', `${volumeBytes}b`, group];
    return lvm('lvcreate', '--yes', '--wipesignatures', 'y', '--name', id, ...size);
  }

  grow(place: Place, id: string): Promise<unknown> {
    return lvm('lvextend', '--size', `${grownBytes}b`, `${volumeGroupOf(this.name, place)}/${id}`);
  }

  remove(place: Place, id: string): Promise<unknown> {
    return lvm('lvremove', '--yes', `${volumeGroupOf(this.name, place)}/${id}`);
  }

  list(place: Place): Promise<unknown> {
    return lvm('lvs', '--reportformat', 'json', '--units', 'b', volumeGroupOf(this.name, place));
  }

  freeBytes(place: Place): Promise<unknown> {
    return lvm('vgs', '--noheadings', '--units', 'b', '--options', 'vg_free', volumeGroupOf(this.name, place));
  }

  resume(): void {}

  async pause(): Promise<void> {}
}

/** Runs one LVM command that must succeed; returns its output. */
export async function lvm(...args: readonly string[]): Promise<string> {
  return (await run(['lvm', ...args], { timeoutMs })).stdout.trim();
}

/** Runs LVM's own shell, the fastest way to create many volumes. It continues after an error, so check the result. */
export async function lvmScript(lines: readonly string[]): Promise<void> {
  await run(['lvm'], { timeoutMs, input: `${lines.join('\n')}\n` });
}

import { type Command, command, type Surroundings } from '../base/command.ts';
import { InvalidInput } from '../base/errors.ts';
import { type Flags, flag, oneOf, onOff, text } from '../base/flags.ts';
import { formatBytes, parseQuantity } from '../base/quantity.ts';
import type { LogicalVolume } from '../rpc/gen/lvmd/lvmd_pb.ts';
import { EngineClient, engineFlags } from './engine-client.ts';
import { removeVolumes } from './remove-volume.ts';
import { table } from './table.ts';
import { classHolding, findVolume, listVolumes, NoSuchVolume, type ShownVolume, showVolume } from './volumes.ts';

/** As long as the engine works on a call. */
const timeoutMs = 5 * 60_000;

const deviceClass = flag({
  name: 'device-class',
  type: text,
  default: '',
  description: 'Device class of the volume; empty for the default class',
});
const tags = flag({
  name: 'tags',
  type: text,
  default: '',
  description: 'Tags of the volume; comma-separated',
});

const listFlags = {
  ...engineFlags,
  deviceClass: flag({ ...deviceClass, description: 'Device class to list; empty for all' }),
} as const satisfies Flags;

const createFlags = {
  ...engineFlags,
  deviceClass,
  optionClass: flag({
    name: 'lvcreate-option-class',
    type: text,
    default: '',
    description: 'Name of an lvcreate option class from the configuration',
  }),
  tags,
} as const satisfies Flags;

const snapshotFlags = {
  ...engineFlags,
  access: flag({
    name: 'access',
    type: oneOf(['ro', 'rw']),
    default: 'ro',
    description: 'Access mode: ro for a read-only snapshot, rw for a writable clone',
  }),
  size: flag({
    name: 'size',
    type: text,
    default: '',
    description: 'Size of the copy; empty for the size of its source',
  }),
  tags,
} as const satisfies Flags;

const removeFlags = {
  socket: engineFlags.socket,
  force: flag({
    name: 'force',
    type: onOff,
    default: false,
    description: 'Removal even of a volume that belongs to a claim in Kubernetes',
  }),
} as const satisfies Flags;

export const volumeCommand: Command = {
  summary: 'list and change the volumes of this node',
  commands: {
    ls: command({
      summary: 'list volumes',
      flags: listFlags,
      async run(flags, { print, signal }) {
        using engine = await EngineClient.connect(flags.socket);
        const volumes = await listVolumes(engine, flags.deviceClass, signal);
        if (flags.output === 'json') print(JSON.stringify(volumes, undefined, 2));
        else print(volumes.length === 0 ? 'There are no volumes.' : volumeTable(volumes));
      },
    }),
    create: command({
      summary: 'create a volume; a repeated command shows the existing one',
      words: ['NAME', 'SIZE'],
      flags: createFlags,
      async run(flags, surroundings, [name = '', size = '']) {
        const { signal } = surroundings;
        const wanted = {
          name,
          sizeBytes: sizeOf(size),
          tags: tagsOf(flags.tags),
          deviceClass: flags.deviceClass,
          lvcreateOptionClass: flags.optionClass,
        };
        using engine = await EngineClient.connect(flags.socket);
        const { volume } = await engine.volumes.createLV(wanted, { timeoutMs, signal });
        const holder = flags.deviceClass || (await classHolding(engine, name, signal));
        printVolume(volume, holder, flags.output, surroundings);
      },
    }),
    grow: command({
      summary: 'grow a volume; one that is large enough keeps its size',
      words: ['NAME', 'SIZE'],
      flags: engineFlags,
      async run(flags, surroundings, [name = '', size = '']) {
        const { signal } = surroundings;
        const sizeBytes = sizeOf(size);
        using engine = await EngineClient.connect(flags.socket);
        const deviceClass = await classHolding(engine, name, signal);
        await engine.volumes.resizeLV({ name, deviceClass, sizeBytes }, { timeoutMs, signal });
        const grown = await findVolume(engine, deviceClass, name, signal);
        if (!grown) throw new NoSuchVolume(name);
        show(grown, flags.output, surroundings);
      },
    }),
    snapshot: command({
      summary: 'create a snapshot or a clone of a volume',
      words: ['SOURCE', 'NAME'],
      flags: snapshotFlags,
      async run(flags, surroundings, [sourceVolume = '', name = '']) {
        const { signal } = surroundings;
        const wanted = {
          name,
          sourceVolume,
          accessType: flags.access,
          tags: tagsOf(flags.tags),
          ...(flags.size && { sizeBytes: sizeOf(flags.size) }),
        };
        using engine = await EngineClient.connect(flags.socket);
        const deviceClass = await classHolding(engine, sourceVolume, signal);
        const { snapshot } = await engine.volumes.createLVSnapshot({ ...wanted, deviceClass }, { timeoutMs, signal });
        printVolume(snapshot, deviceClass, flags.output, surroundings);
      },
    }),
    rm: command({
      summary: 'remove volumes, erase their data if their device class says so, and show the progress',
      words: ['NAME...'],
      flags: removeFlags,
      async run(flags, surroundings, words) {
        using engine = await EngineClient.connect(flags.socket);
        await removeVolumes(engine, words, flags.force, surroundings);
      },
    }),
  },
};

function volumeTable(volumes: readonly ShownVolume[]): string {
  return table(
    ['NAME', 'CLASS', 'SIZE', 'ACCESS', 'ORIGIN', 'CLAIM', 'DEVICE'],
    volumes.map(({ name, deviceClass, sizeBytes, access, origin = '', claim = '', device }) => [
      name,
      deviceClass,
      formatBytes(BigInt(sizeBytes)),
      access,
      origin,
      claim,
      device,
    ]),
  );
}

function printVolume(
  volume: LogicalVolume | undefined,
  deviceClass: string,
  output: 'table' | 'json',
  surroundings: Surroundings,
): void {
  if (volume) show(showVolume(volume, deviceClass), output, surroundings);
}

function show(volume: ShownVolume, output: 'table' | 'json', { print }: Surroundings): void {
  print(output === 'json' ? JSON.stringify(volume, undefined, 2) : volumeTable([volume]));
}

function sizeOf(text: string): bigint {
  const sizeBytes = parseQuantity(text);
  if (sizeBytes <= 0n) throw new InvalidInput(`invalid size ${text}: use a size above zero, such as 10Gi`);
  return sizeBytes;
}

function tagsOf(text: string): string[] {
  return text === '' ? [] : text.split(',');
}

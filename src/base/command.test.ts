import assert from 'node:assert/strict';
import { test } from 'node:test';
import { command, type Program } from './command.ts';
import { InvalidInput } from './errors.ts';
import { duration, type Flags, type FlagType, flag, list, oneOf, onOff, path, quantity, text } from './flags.ts';
import { runCaptured } from './testing/run-captured.ts';

const integer: FlagType<number> = {
  placeholder: 'number',
  parse(value) {
    if (!/^[+-]?\d{1,15}$/.test(value)) throw new InvalidInput('use a whole number');
    return Number(value);
  },
};

const flags = {
  socket: flag({ name: 'csi-socket', type: path, default: '/run/csi.sock', description: 'Where CSI listens' }),
  nodeName: flag({ name: 'nodename', type: text, env: 'NODE_NAME', description: 'The node' }),
  metrics: flag({
    name: 'metrics-addr',
    aliases: ['metrics-bind-address'],
    type: text,
    default: ':8080',
    description: 'Where metrics are served',
  }),
  workers: flag({ name: 'workers', type: integer, default: 4, env: 'WORKERS', description: 'How many at once' }),
  election: flag({ name: 'leader-election', type: onOff, default: true, description: 'Only one leads' }),
  level: flag({ name: 'log-level', type: oneOf(['info', 'debug']), default: 'info', description: 'How much to log' }),
} as const satisfies Flags;

const outputFlags = {
  output: flag({ name: 'output', short: 'o', type: oneOf(['table', 'json']), default: 'table', description: 'How' }),
  all: flag({ name: 'all', short: 'A', type: onOff, default: false, description: 'Everything' }),
} as const satisfies Flags;

/** A program whose commands record what they get. */
function recording() {
  const got: { flags?: unknown; words?: readonly string[] } = {};
  const program: Program = {
    name: 'program',
    summary: 'a test',
    commands: {
      serve: command({
        summary: 'serve',
        alias: 'served',
        flags,
        async run(values, _surroundings, words) {
          const typed: { nodeName: string; workers: number; election: boolean; level: 'info' | 'debug' } = values;
          Object.assign(got, { flags: typed, words });
        },
      }),
      create: command({
        summary: 'create one',
        words: ['NAME', 'SIZE'],
        flags: outputFlags,
        run: async (flags, _surroundings, words) => void Object.assign(got, { flags, words }),
      }),
      remove: command({
        summary: 'remove some',
        words: ['NAME...'],
        flags: outputFlags,
        run: async (flags, _surroundings, words) => void Object.assign(got, { flags, words }),
      }),
    },
  };
  return { program, got };
}

async function parse(words: readonly string[], env: NodeJS.ProcessEnv = { NODE_NAME: 'n1' }) {
  const { program, got } = recording();
  await runCaptured(program, words, { env });
  return got as { flags: Record<string, unknown>; words: readonly string[] };
}

const serve = async (args: readonly string[], env?: NodeJS.ProcessEnv) => (await parse(['serve', ...args], env)).flags;

test('defaults apply, and values have the declared type', async () => {
  assert.deepEqual(await serve([]), {
    socket: '/run/csi.sock',
    nodeName: 'n1',
    metrics: ':8080',
    workers: 4,
    election: true,
    level: 'info',
  });
});

test('a flag overrides the environment, which overrides the default', async () => {
  assert.equal((await serve(['--nodename=n2']))['nodeName'], 'n2');
  assert.equal((await serve(['--nodename', 'n3']))['nodeName'], 'n3');
  assert.equal((await serve([], { NODE_NAME: 'n1', WORKERS: '7' }))['workers'], 7);
  assert.equal((await serve(['--workers', '8'], { NODE_NAME: 'n1', WORKERS: '7' }))['workers'], 8);
});

test('an empty environment variable counts as not set', async () => {
  assert.equal((await serve([], { NODE_NAME: 'n1', WORKERS: '' }))['workers'], 4);
  await assert.rejects(serve([], { NODE_NAME: '' }), { message: '--nodename is required; pass it or set NODE_NAME' });
});

test('an alias sets the flag, and the last value wins', async () => {
  assert.equal((await serve(['--metrics-bind-address=:1', '--metrics-addr', ':2']))['metrics'], ':2');
  assert.equal((await serve(['--metrics-addr', ':2', '--metrics-bind-address=:1']))['metrics'], ':1');
});

test('a switch works with and without a value, and takes no word after it', async () => {
  assert.equal((await serve(['--leader-election']))['election'], true);
  assert.equal((await serve(['--leader-election=false', '--workers', '1']))['election'], false);
  const expected = { flags: { output: 'json', all: true }, words: ['a', 'b'] };
  assert.deepEqual(await parse(['remove', '--all', 'a', '-o', 'json', 'b']), expected);
  assert.deepEqual(await parse(['remove', '-A', 'a', 'b', '-ojson']), expected);
  assert.deepEqual(await parse(['remove', '-Aojson', 'a', 'b']), expected);
});

test('each mistake is reported with its remedy', async () => {
  const mistakes: [string[], string][] = [
    [['serv'], "unknown command 'serv'; did you mean serve?"],
    [['xyz'], "unknown command 'xyz'; see program --help"],
    [['serve', '--log-lvel=debug'], "unknown flag '--log-lvel'; did you mean --log-level?"],
    [['serve', '--colour'], "unknown flag '--colour'; see program serve --help"],
    [['serve', '-w'], "unknown flag '-w'; see program serve --help"],
    [['serve', '--workers'], '--workers needs a value; write --workers=<number>'],
    [['serve', '--workers', '--leader-election'], '--workers needs a value; write --workers=<number>'],
    [['serve', '--workers', 'many'], 'invalid --workers "many": use a whole number'],
    [['serve', '--leader-election=perhaps'], 'invalid --leader-election "perhaps": use true or false'],
    [['serve', '--log-level=loud'], 'invalid --log-level "loud": use one of info, debug'],
    [['create', 'data'], "missing required argument 'SIZE'; see program create --help"],
    [['remove'], "missing required argument 'NAME'; see program remove --help"],
    [
      ['serve', '--', 'x'],
      "too many arguments for 'serve'. Expected 0 arguments but got 1: x; see program serve --help",
    ],
  ];
  for (const [words, message] of mistakes) await assert.rejects(parse(words), { name: 'InvalidInput', message });
  await assert.rejects(serve([], { NODE_NAME: 'n1', WORKERS: 'x' }), {
    message: 'invalid environment variable WORKERS "x": use a whole number',
  });
});

test('arguments may stand among flags, and after -- nothing is a flag', async () => {
  assert.deepEqual((await parse(['create', 'data', '-o', 'json', '10Gi'])).words, ['data', '10Gi']);
  assert.deepEqual((await parse(['remove', 'a', 'b', 'c'])).words, ['a', 'b', 'c']);
  assert.deepEqual((await parse(['remove', '--', '--all'])).words, ['--all']);
});

test('help has the names, default and environment variable of each flag, in columns', async () => {
  const { program } = recording();
  const help = await runCaptured(program, ['serve', '--workers=1', '--help']);
  assert.equal(
    help,
    `Usage: program serve [flags]

Serve.

Flags:
  --csi-socket <path>       Where CSI listens (default "/run/csi.sock")
  --nodename <text>         The node (required, environment NODE_NAME)
  --metrics-bind-address, --metrics-addr <text>
                            Where metrics are served (default ":8080")
  --workers <number>        How many at once (default 4, environment WORKERS)
  --leader-election         Only one leads (default true)
  --log-level <info|debug>  How much to log (default "info")
  -h, --help                Help on this command`,
  );
  assert.equal(await runCaptured(program, ['served', '-h']), help);
  assert.match(await runCaptured(program, ['create', '-h']), /^Usage: program create NAME SIZE \[flags\]\n/);
  assert.match(await runCaptured(program, ['create', '-h']), /^ {2}-A, --all +Everything$/m);
});

test('a program without a command prints its commands', async () => {
  const { program } = recording();
  const help = await runCaptured(program, []);
  assert.match(help, /^Usage: program <command>\n\nA test\.\n/);
  assert.match(help, /^ {2}serve, served +serve$/m);
  assert.equal(await runCaptured(program, ['--help']), help);
});

test('help shows defaults in the format of their type', async () => {
  const sized = command({
    summary: 'size',
    flags: {
      size: flag({ name: 'size', type: quantity, default: 3n * 2n ** 29n, description: 'Size' }),
      names: flag({ name: 'names', type: list, default: ['a'], description: 'Names' }),
      lease: flag({ name: 'lease', type: duration, default: 15_000, description: 'How long' }),
      note: flag({ name: 'note', type: text, default: '', description: 'Note' }),
    },
    run: async () => undefined,
  });
  const help = await runCaptured({ name: 'program', summary: '', commands: { sized } }, ['sized', '--help']);
  assert.match(help, /Size \(default 1536Mi\)\n.*Names \(default "a"\)\n.*How long \(default 15s\)\n.*Note\n/);
});

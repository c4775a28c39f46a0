import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  asksForHelp,
  describeFlags,
  duration,
  flag,
  integer,
  list,
  oneOf,
  onOff,
  parseCommandLine,
  parseFlags,
  quantity,
  text,
} from './flags.ts';

const flags = {
  socket: flag({ name: 'csi-socket', type: text, default: '/run/csi.sock', description: 'Where CSI listens.' }),
  nodeName: flag({ name: 'nodename', type: text, env: 'NODE_NAME', description: 'The node.' }),
  metrics: flag({
    name: 'metrics-addr',
    aliases: ['metrics-bind-address'],
    type: text,
    default: ':8080',
    description: 'Where metrics are served.',
  }),
  workers: flag({ name: 'workers', type: integer, default: 4, env: 'WORKERS', description: 'How many at once.' }),
  election: flag({ name: 'leader-election', type: onOff, default: true, description: 'Only one leads.' }),
  level: flag({ name: 'log-level', type: oneOf(['info', 'debug']), default: 'info', description: 'How much to say.' }),
};
const parse = (args: string[], env: NodeJS.ProcessEnv = { NODE_NAME: 'n1' }) => parseFlags(flags, args, env);

test('defaults apply, and values have the declared type', () => {
  const values = parse([]);
  const typed: { nodeName: string; workers: number; election: boolean; level: 'info' | 'debug' } = values;
  assert.equal(typed, values);
  assert.deepEqual(values, {
    socket: '/run/csi.sock',
    nodeName: 'n1',
    metrics: ':8080',
    workers: 4,
    election: true,
    level: 'info',
  });
});

test('a flag overrides the environment, which overrides the default', () => {
  assert.equal(parse(['--nodename=n2']).nodeName, 'n2');
  assert.equal(parse(['--nodename', 'n3']).nodeName, 'n3');
  assert.equal(parse([], { NODE_NAME: 'n1', WORKERS: '7' }).workers, 7);
  assert.equal(parse(['--workers', '8'], { NODE_NAME: 'n1', WORKERS: '7' }).workers, 8);
});

test('an empty environment variable counts as not set', () => {
  assert.equal(parse([], { NODE_NAME: 'n1', WORKERS: '' }).workers, 4);
  assert.throws(() => parse([], { NODE_NAME: '' }), { message: '--nodename is required; pass it or set NODE_NAME' });
});

test('an alias sets the flag, and the last value wins', () => {
  assert.equal(parse(['--metrics-bind-address=:1', '--metrics-addr', ':2']).metrics, ':2');
  assert.equal(parse(['--metrics-addr', ':2', '--metrics-bind-address=:1']).metrics, ':1');
});

test('a boolean flag works with and without a value', () => {
  assert.equal(parse(['--leader-election']).election, true);
  assert.equal(parse(['--leader-election=false', '--workers', '1']).election, false);
});

test('each error names the flag and the remedy', () => {
  const mistakes: [string[], RegExp][] = [
    [['--colour'], /^unknown flag --colour; see --help$/],
    [['--colour=red'], /^unknown flag --colour; see --help$/],
    [['-w'], /^unknown flag -w; see --help$/],
    [['volume'], /^unexpected argument "volume"; see --help$/],
    [['--', 'volume'], /^unexpected argument "volume"; see --help$/],
    [['--workers'], /^--workers needs a value; write --workers=<number>$/],
    [['--workers', '--leader-election'], /^--workers needs a value/],
    [['--workers', 'many'], /^invalid --workers "many": use a whole number$/],
    [['--leader-election=perhaps'], /^invalid --leader-election "perhaps": use true or false$/],
    [['--log-level=loud'], /^invalid --log-level "loud": use one of info, debug$/],
  ];
  for (const [args, message] of mistakes) assert.throws(() => parse(args), { name: 'InvalidInput', message });
  assert.throws(() => parse([], { NODE_NAME: 'n1', WORKERS: 'x' }), {
    message: /^invalid environment variable WORKERS "x"/,
  });
});

test('a value that starts with dashes can be given with an equals sign', () => {
  assert.equal(parse(['--csi-socket=--odd']).socket, '--odd');
  assert.equal(parse(['--workers', '-1']).workers, -1);
});

test('help shows the names, default and environment variable of each flag', () => {
  const help = describeFlags(flags);
  assert.match(help, / {2}--csi-socket <text>\n {6}Where CSI listens. \(default "\/run\/csi.sock"\)/);
  assert.match(help, / {2}--nodename <text>\n {6}The node. \(required, environment NODE_NAME\)/);
  assert.match(help, / {2}--metrics-addr, --metrics-bind-address <text>\n/);
  assert.match(help, / {2}--leader-election\n {6}Only one leads. \(default true\)/);
  assert.match(help, / {2}--log-level <info\|debug>\n/);
  assert.ok(asksForHelp(['--workers=1', '--help']) && asksForHelp(['-h']) && !asksForHelp(['--workers=1']));
});

test('arguments may stand among flags, and their number is checked', () => {
  const flags = {
    output: flag({ name: 'output', short: 'o', type: oneOf(['table', 'json']), default: 'table', description: 'How.' }),
  };
  const parse = (names: string[], ...args: string[]) => parseCommandLine(flags, names, args, {});
  assert.deepEqual(parse(['NAME', 'SIZE'], 'data', '-o', 'json', '10Gi'), {
    flags: { output: 'json' },
    words: ['data', '10Gi'],
  });
  assert.equal(parse([], '-ojson').flags.output, 'json');
  assert.deepEqual(parse(['NAME...'], 'a', 'b', 'c').words, ['a', 'b', 'c']);
  assert.throws(() => parse(['NAME', 'SIZE'], 'data'), { message: 'SIZE is missing; see --help' });
  assert.throws(() => parse(['NAME...']), { message: 'NAME is missing; see --help' });
  assert.throws(() => parse(['NAME'], 'a', 'b'), { message: 'unexpected argument "b"; see --help' });
  assert.throws(() => parse([], '-x'), { message: 'unknown flag -x; see --help' });
  assert.throws(() => parse([], '-o', 'yaml'), { message: 'invalid --output "yaml": use one of table, json' });
  assert.match(describeFlags(flags), /^ {2}-o, --output <table\|json>$/m);
});

test('a duration has the format of Go', () => {
  assert.equal(duration.parse('15s'), 15_000);
  assert.equal(duration.parse('1h1m30s500ms'), 3_690_500);
  for (const wrong of ['', '15', 's', '-1s', '1.5s', '15s ', '1d']) assert.throws(() => duration.parse(wrong), wrong);
  const lease = flag({ name: 'lease', type: duration, default: 15_000, description: 'How long.' });
  assert.match(describeFlags({ lease }), /--lease <duration>\n +How long\. \(default 15s\)/);
});

test('a quantity and a list are parsed, and shown in the same format', () => {
  const sized = {
    size: flag({ name: 'size', type: quantity, default: 3n * 2n ** 29n, description: 'Size' }),
    names: flag({ name: 'names', type: list, default: ['a'], description: 'Names' }),
  };
  assert.deepEqual(parseFlags(sized, ['--size=10Gi', '--names=a, b,'], {}), {
    size: 10n * 2n ** 30n,
    names: ['a', 'b'],
  });
  assert.deepEqual(parseFlags(sized, ['--names='], {}), { size: 3n * 2n ** 29n, names: [] });
  assert.throws(
    () => parseFlags(sized, ['--size=big'], {}),
    /^InvalidInput: invalid --size "big": "big" is not a quantity/,
  );
  assert.match(
    describeFlags(sized),
    /--size <quantity>\n +Size \(default 1536Mi\)\n +--names <list>\n +Names \(default "a"\)/,
  );
});

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { createLog } from './log.ts';
import { silentLog } from './testing/silent-log.ts';

const program = `
  import { createLog } from '${import.meta.dirname}/log.ts';
  import { InvalidInput } from '${import.meta.dirname}/errors.ts';
  const log = createLog('node', 'info');
  log.info({ volume: 'v' }, 'volume created');
  log.debug('not written');
  log.warn({ err: new InvalidInput('size is negative; give a positive one') }, 'refused');
  log.error({ err: new TypeError('a bug') }, 'failed');
`;

test('each event is one line of JSON, and only an unexpected error has its stack', () => {
  const { stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' });
  const [created, refused, failed, ...more] = stderr
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    [created.level, created.process, created.volume, created.msg],
    ['info', 'node', 'v', 'volume created'],
  );
  assert.deepEqual(refused.err, { type: 'InvalidInput', code: 'InvalidArgument' });
  assert.match(failed.err.stack, /TypeError: a bug\n.* at /);
  assert.deepEqual(more, []);
});

test('a line has level, time and process first, then the fields of the log and the event, then the message', () => {
  const lines: string[] = [];
  const log = createLog('node', 'info', (line) => lines.push(line))
    .child({ volumeGroup: 'vg' })
    .child({ deviceClass: 'ssd' });
  log.warn({ volume: 'v' }, 'slow');
  const [line = ''] = lines;
  const [, time = ''] = /"time":"([^"]+)"/.exec(line) ?? [];
  assert.equal(new Date(time).toISOString(), time);
  const rest = '"process":"node","volumeGroup":"vg","deviceClass":"ssd","volume":"v","msg":"slow"';
  assert.equal(line, `{"level":"warn","time":"${time}",${rest}}\n`);
});

test('only the requested levels are written', () => {
  const levels = ['debug', 'info', 'warn', 'error'] as const;
  for (const [i, lowest] of levels.entries()) {
    const logged: string[] = [];
    const log = createLog('node', lowest, (line) => logged.push(JSON.parse(line).level));
    for (const level of levels) log[level]('an event');
    assert.deepEqual(logged, levels.slice(i));
    assert.equal(log.isLevelEnabled('debug'), lowest === 'debug');
  }
  assert.equal(silentLog.child({ deviceClass: 'ssd' }).isLevelEnabled('error'), false);
});

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';

const program = `
  import { createLog } from '${import.meta.dirname}/log.ts';
  import { InvalidInput } from '${import.meta.dirname}/errors.ts';
  const log = createLog('node', 'info');
  log.info({ volume: 'v' }, 'volume made');
  log.debug('not written');
  log.warn({ err: new InvalidInput('size is negative; give a positive one') }, 'refused');
  log.error({ err: new TypeError('a bug') }, 'failed');
`;

test('each event is one line of JSON; only an error that nobody foresaw comes with its stack', () => {
  const { stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' });
  const [made, refused, failed, ...more] = stderr
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.deepEqual([made.level, made.process, made.volume, made.msg], ['info', 'node', 'v', 'volume made']);
  assert.deepEqual(refused.err, { type: 'InvalidInput', code: 'InvalidArgument' });
  assert.match(failed.err.stack, /TypeError: a bug\n.* at /);
  assert.deepEqual(more, []);
});

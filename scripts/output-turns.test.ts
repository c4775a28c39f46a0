import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { type Print, Turns } from './output-turns.ts';

test('the first prints at once, the next when it has ended, and a failure holds nobody up', async () => {
  let output = '';
  const turns = new Turns((text) => {
    output += text;
  });
  const begin = () => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    let print: Print = assert.fail;
    const taken = turns.take(async (given) => {
      print = given;
      await promise;
    });
    return { taken, resolve, reject, print: (text: string) => print(text) };
  };
  const [one, two, three] = [begin(), begin(), begin()];
  await setImmediate();
  three.print('c');
  two.print('b');
  one.print('a');
  assert.equal(output, 'a');
  three.resolve();
  await three.taken;
  assert.equal(output, 'a');
  one.reject(new Error('failed'));
  await assert.rejects(one.taken, /failed/);
  await setImmediate();
  assert.equal(output, 'ab');
  two.print('B');
  assert.equal(output, 'abB');
  two.resolve();
  await Promise.all([two.taken, three.taken, turns.end()]);
  assert.equal(output, 'abBc');
});

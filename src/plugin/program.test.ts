import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { runCaptured } from '../base/testing/run-captured.ts';
import { kubectlMoorage } from './program.ts';

test('docs/plugin.md lists each command, and no other', () => {
  const text = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'plugin.md'), 'utf8');
  const listed = [...text.matchAll(/^\| `kubectl moorage ([a-z]+)/gm)].map(([, name]) => name);
  const { commands } = kubectlMoorage({ columns: 80, colours: false });
  assert.deepEqual(new Set(listed), new Set(Object.keys(commands)));
});

test('why and check say how a file is given', async () => {
  const run = (...words: string[]) => runCaptured(kubectlMoorage({ columns: 80, colours: false }), words);
  await assert.rejects(run('check'), { message: '--filename is required; pass -f PATH' });
  const message = 'name a claim or a pod, or use -f FILE, not both';
  await assert.rejects(run('why', 'data', '-f', 'a.yaml'), { message });
  await assert.rejects(run('why'), { message });
});

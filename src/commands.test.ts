import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Commands } from './base/command.ts';
import { runCaptured } from './base/testing/run-captured.ts';
import { moorage } from './commands.ts';

const documented = await readFile(join(import.meta.dirname, '..', 'docs', 'running.md'), 'utf8');

function runnable(commands: Commands, path: readonly string[]): (readonly string[])[] {
  return Object.entries(commands).flatMap(([name, { commands = {}, ...command }]) => [
    ...(command.run ? [[...path, name]] : []),
    ...runnable(commands, [...path, name]),
  ]);
}

for (const path of runnable(moorage.commands, [])) {
  const name = ['moorage', ...path].join(' ');
  test(`docs/running.md shows the current help of ${name}`, async () => {
    const section = `### ${name}\n\n\`\`\`text\n`;
    const start = documented.indexOf(section);
    assert.notEqual(start, -1, `there is no section for ${name}`);
    const block = documented.slice(start + section.length);
    assert.equal(block.slice(0, block.indexOf('\n```')), await runCaptured(moorage, [...path, '--help']));
  });
}

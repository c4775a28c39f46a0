import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Command, type Commands, helpOn } from './cli/command.ts';
import { commands } from './commands.ts';

const documented = await readFile(join(import.meta.dirname, '..', 'docs', 'running.md'), 'utf8');

function all(commands: Commands, path: readonly string[]): { path: readonly string[]; command: Command }[] {
  return Object.entries(commands).flatMap(([name, command]) => [
    { path: [...path, name], command },
    ...all(command.commands ?? {}, [...path, name]),
  ]);
}

for (const { path, command } of all(commands, ['moorage'])) {
  if (!command.run) continue;
  test(`docs/running.md shows the current help of ${path.join(' ')}`, () => {
    const section = `### ${path.join(' ')}\n\n\`\`\`text\n`;
    const start = documented.indexOf(section);
    assert.notEqual(start, -1, `there is no section for ${path.join(' ')}`);
    const block = documented.slice(start + section.length);
    assert.equal(block.slice(0, block.indexOf('\n```')), helpOn(command, path));
  });
}

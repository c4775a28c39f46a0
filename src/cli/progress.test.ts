import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Progress } from './progress.ts';

const gibibyte = 1024n ** 3n;

function show(isTerminal: boolean, steps: readonly bigint[]): string {
  let written = '';
  const screen = {
    isTerminal,
    write: (text: string) => {
      written += text;
    },
  };
  {
    using progress = new Progress(screen, 'erasing data');
    for (const percent of steps) progress.update((percent * gibibyte) / 100n, gibibyte);
  }
  return written;
}

test('a terminal shows one line that is overwritten and finally cleared', () => {
  const empty = `erasing data ${'░'.repeat(30)} 0% of 1 GiB`;
  const half = `erasing data ${'█'.repeat(15)}${'░'.repeat(15)} 50% of 1 GiB`;
  assert.equal(show(true, [0n, 50n]), `\r\x1b[K${empty}\r\x1b[K${half}\r\x1b[K`);
});

test('a file gets one line per tenth', () => {
  assert.equal(
    show(false, [0n, 5n, 25n, 25n, 100n]),
    ['0%', '25%', '100%'].map((percent) => `erasing data: ${percent} of 1 GiB\n`).join(''),
  );
});

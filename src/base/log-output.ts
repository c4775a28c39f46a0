import { destination } from 'pino';

/** Pauses of 100 ms that a slow reader is waited for, before it counts as one that stands still. */
const patience = 10;
const retryMs = 1000;
const mostWaitingBytes = 4 * 1024 * 1024;

/**
 * Standard error, written at once, so that the last words of a process that crashes are there too. A slow reader is waited
 * for. For one that stands still, lines wait in memory and are lost when there are too many; the work goes on. The same is
 * true of a disk that is full. If the reader is gone, there is nobody to tell.
 */
export function standardErrorOutput(): (line: string) => void {
  let pauses = 0;
  let lostLines = 0;
  let retry: NodeJS.Timeout | undefined;
  const output = destination({
    dest: process.stderr.fd, // Node opens a pipe so that a write to it never blocks
    sync: true,
    maxLength: mostWaitingBytes,
    retryEAGAIN: () => pauses++ < patience,
  });
  output.on('drop', () => {
    lostLines++;
  });
  output.on('write', (bytes: number) => {
    if (bytes === 0) return;
    pauses = 0;
    if (lostLines === 0) return;
    const [time, msg] = [new Date().toISOString(), `${lostLines} log lines are lost: their reader stood still`];
    lostLines = 0;
    queueMicrotask(() => output.write(`${JSON.stringify({ level: 'warn', time, msg })}\n`));
  });
  const tryAgain = () => {
    retry = undefined;
    output.write('');
  };
  output.on('error', () => {
    retry ??= setTimeout(tryAgain, retryMs).unref();
  });
  process.once('exit', tryAgain);
  return (line) => void output.write(line);
}

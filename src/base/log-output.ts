import { destination } from 'pino';

/** Delays of 100 ms that a slow reader gets before it counts as blocked. */
const patience = 10;
const retryMs = 1000;
const mostWaitingBytes = 4 * 1024 * 1024;

/**
 * Standard error, written synchronously, so that the last lines of a crashing process are not lost. It waits for a slow
 * reader. For a blocked one, lines are buffered in memory and dropped if there are too many; work continues. The same
 * applies to a full disk. If the reader is gone, lines are dropped.
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
    const [time, msg] = [new Date().toISOString(), `${lostLines} log lines are lost: their reader was blocked`];
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
